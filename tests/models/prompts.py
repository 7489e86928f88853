"""Prompts of given lengths for comparisons: prose, code, lists and digits, other scripts; made, not collected."""
import random

PROMPT_LENGTHS = [1, 2, 3, 5, 8, 13, 17, 31, 32, 33, 64, 100, 127, 200, 256, 300, 513, 777, 1024, 1500]

_SUBJECTS = ["The old bridge", "A small engine", "Every morning the baker", "Our teacher", "The river", "My neighbour",
             "The committee", "A lost traveller", "This machine", "The youngest child"]
_VERBS = ["carries", "remembers", "explains", "follows", "builds", "repairs", "forgets", "measures", "paints", "sells"]
_OBJECTS = ["the road to the village", "three wooden boats", "a letter from 1987", "the price of bread", "long division",
            "a map of the islands", "what the wind said", "seven blue lamps", "an answer nobody wanted", "the garden gate"]
_CODE = "def area(width, height):\n    return width * height\n\nfor i in range(10):\n    print(i, area(i, 2))\n"
_ODD = "Größe 42, naïve café, 東京 2024, привет мир; x = 3.14159 and y = -17. "


def prompt_text(n: int) -> str:
    """Text of well over n tokens, the same for the same n."""
    random_ = random.Random(n)
    parts = []
    while sum(map(len, parts)) < n * 8 + 64:
        kind = random_.randrange(12)
        if kind == 0:
            parts.append(_CODE)
        elif kind == 1:
            parts.append(_ODD)
        else:
            parts.append(f"{random_.choice(_SUBJECTS)} {random_.choice(_VERBS)} {random_.choice(_OBJECTS)}. ")
    return "".join(parts)

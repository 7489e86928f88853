#include "model/text/tokenizer/bpe/pretokenize_names.h"

#include "model/text/tokenizer/bpe/pretokenize.h"

/* The patterns are those of the tokenizer.json files that the models were published with; which
 * name stands for which is llama.cpp's (src/llama-vocab.cpp), where GGUF files get them. */

/* What follows OpenAI's cl100k: they differ in how many digits stand together. */
#define SHORT_FORMS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CL100K(digits)                                                                             \
    SHORT_FORMS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                           \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* OpenAI's o200k: words end where lower case meets upper case. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K(digits, forms)                                                                       \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" forms "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER   \
    "*" forms "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* DeepSeek LLM: the letters that have an upper and a lower case, as it lists them. */
#define DEEPSEEK_LETTERS                                                                           \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define DEEPSEEK_HAN "\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}"

/* \\s+$ of the published pattern; said so that a run of blanks is looked at once. */
#define BLANKS_AT_END "(?<!\\s)\\s++$"

/* DeepSeek V3 and those after it. */
#define DEEPSEEK_V3                                                                                \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                       \
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|"        \
    "\\s+(?!\\S)|\\s+"

static const struct pretokenize_name table[] = {
    {.names = " gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat mellum a.x-4.0 jais "
              "jina-v1-en jina-v2-code roberta-bpe trillion granite-docling ",
     .patterns = {PRETOKENIZE_GPT2}},
    {.names = " mpt olmo modern-bert gpt-neox ", .patterns = {PRETOKENIZE_GPT2}, .is_nfc = true},
    {.names = " smollm starcoder refact codeshell exaone minerva-7b mellum2 ",
     .patterns = {"\\p{N}", PRETOKENIZE_GPT2}},
    {.names = " command-r ", .patterns = {"\\p{N}", PRETOKENIZE_GPT2}, .is_nfc = true},
    {.names = " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 ",
     .patterns = {CL100K("\\p{N}{1,3}")},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = " dbrx smaug-bpe chatglm-bpe glm4 glm5 ", .patterns = {CL100K("\\p{N}{1,3}")}},
    {.names = " qwen2 deepseek-r1-qwen kormo f2llmv2 megrez ",
     .patterns = {CL100K("\\p{N}")},
     .is_nfc = true},
    {.names = " stablelm2 hunyuan solar-open grok-2 ", .patterns = {CL100K("\\p{N}")}},
    {.names = " qwen35 ",
     .patterns = {SHORT_FORMS
                  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
                  "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = " deepseek-llm ",
     .patterns =
         {"[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+",
          "\\s?[!-/"
          ":-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
          BLANKS_AT_END, "[" DEEPSEEK_HAN "]+", "\\p{N}"}},
    {.names = " deepseek-coder ",
     .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[" DEEPSEEK_HAN "]+", "\\p{N}"}},
    {.names = " deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     .patterns = {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
                  DEEPSEEK_V3}},
    {.names = " falcon ", .patterns = {"[\\p{P}$+<=>^~|`]+", PRETOKENIZE_GPT2, "[0-9][0-9][0-9]"}},
    /* What llama.cpp does with a name of no meaning, under which older files were written. */
    {.names = " default ",
     .patterns = {"[\\p{P}$+<=>^~|]+", PRETOKENIZE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = " bloom poro-chat gpt3-finnish ",
     .patterns = {" ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"}},
    {.names = " viking ",
     .patterns = {" ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+",
                  "\\p{N}"}},
    {.names = " tekken ",
     .patterns = {O200K("\\p{N}", "")},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = " gpt-4o llama4 kanana2 ", .patterns = {O200K("\\p{N}{1,3}", SHORT_FORMS "?")}},
    {.names = " superbpe ", .patterns = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
};

const struct pretokenize_name *pretokenize_find(struct span name) {
    char key[64];
    if (name.n == 0 || name.n + 3 > sizeof key || memchr(name.bytes, ' ', name.n) ||
        memchr(name.bytes, 0, name.n))
        return NULL;
    key[0] = key[name.n + 1] = ' ';
    memcpy(key + 1, name.bytes, name.n);
    key[name.n + 2] = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strstr(table[i].names, key))
            return &table[i];
    return NULL;
}

enum status pretokenizer_init(struct pretokenizer *pretokenizer,
                              const struct pretokenize_name *name, struct error *error) {
    *pretokenizer = (struct pretokenizer){0};
    for (size_t i = 0; name->patterns[i]; i++) {
        struct span pattern = {name->patterns[i], strlen(name->patterns[i])};
        enum status status =
            pretokenizer_add_split(pretokenizer, pattern, false, CUT_ISOLATED, false, error);
        if (status != STATUS_OK) {
            pretokenizer_fini(pretokenizer);
            return status;
        }
    }
    return pretokenizer_add_byte_level(pretokenizer, false, false, error);
}

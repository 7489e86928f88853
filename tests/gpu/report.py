"""gpu.md of the records of gpu.jsonl: for each phase what became of its steps, and a table for each kind of measure."""

HIDDEN = ("phase", "step", "measure", "tail")


def cell(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("|", "\\|")


def table(rows):
    """Of dicts: a column for each key, in the order in which they come."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in HIDDEN))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(cell(row.get(key)) for key in columns) + " |" for row in rows]


def outcome(step):
    why = f": {step['why']}" if step["why"] else ""
    return [f"### {step['step']}", "", f"{step['outcome']}{why} ({step['seconds']} s)", ""]


def markdown(records):
    lines = ["# The CUDA backend on a GPU", ""]
    for machine in (record for record in records if record["measure"] == "machine"):
        what = "A rehearsal: no time is claimed. " if machine["rehearsal"] else ""
        lines += [f"{what}{machine['gpus']} x {machine['name']}, {machine['cores']} cores, commit {machine['commit']}.", ""]
    for phase in dict.fromkeys(record["phase"] for record in records if "phase" in record):
        lines += [f"## {phase}", ""]
        mine = [record for record in records if record.get("phase") == phase]
        for step in (record for record in mine if record["measure"] == "step"):
            lines += outcome(step)
            measures = [record for record in mine if record["step"] == step["step"] and record["measure"] != "step"]
            for kind in dict.fromkeys(record["measure"] for record in measures):
                lines += [f"{kind}:", "", *table([record for record in measures if record["measure"] == kind]), ""]
            if step["tail"] and (not measures or step["outcome"] == "failed"):
                lines += ["```", *step["tail"], "```", ""]
    return "\n".join(lines)

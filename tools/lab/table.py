# SPDX-License-Identifier: Apache-2.0
#
# Tables of what drivers say of pipelines, and the comparison with the recorded one. tools/lab/run calls it:
#
#     table.py table|every|json|against|update RESULTS RECORD SECONDS whole|limited CHIPS
#
# CHIPS: lines "VENDOR CHIP". RESULTS has for each chip VENDOR-CHIP.json (lines that backends/vulkan/statistics.c
# writes), .log and .code of the program ("-": it did not come to an end); or .skipped, the reason. limited: not all
# programs were compiled. RECORD has a line for each pipeline, named by its variant and its shader, and a column for
# each chip: the occupancy of the worst specialisation, in the driver's own unit, or "-" where the pipeline is never
# made there. Spills that are put up with stand behind it: "8!3". Below, a line "+ NAME: .." has for each pipeline a
# digest of each specialisation of which its figures are the worst; which these are depends on the programs, so others
# are not held against them.
import json
import os
import sys
import zlib

# What a statistic is called, by vendor; drivers rename them between versions, so the first name that is there counts.
NAMES = {
    "amd": {
        "spills": ["Spilled VGPRs"],
        "scratch": ["Scratch size"],
        "moved": ["Spilled SGPRs"],
        "registers": ["VGPRs"],
        "occupancy": ["Subgroups per SIMD"],
        "instructions": ["Instructions", "Instruction Count"],
        "cycles": ["Inverse Throughput"],
    },
    "nvidia": {
        "spills": ["Spills to memory"],
        "scratch": ["SLM size"],
        "moved": ["Spills to reg"],
        "registers": ["Number of GPRs"],
        "occupancy": ["Max warps/SM"],
        "instructions": ["Instruction count", "Instruction Count"],
        "cycles": ["Static cycle count"],
    },
    "intel": {
        "spills": ["Spills", "Spill count"],
        "scratch": ["Scratch Memory Size"],
        "moved": [],
        "registers": ["Max live registers"],
        "occupancy": ["subgroup"],
        "instructions": ["Instructions", "Instruction Count"],
        "cycles": ["Cycles", "Cycle Count"],
    },
    "apple": {
        "spills": ["Spills"],
        "scratch": ["Scratch"],
        "moved": [],
        "registers": ["GPRs"],
        "occupancy": ["Threads"],
        "instructions": ["Instructions"],
        "cycles": ["ALU"],
    },
    "qualcomm": {
        "spills": ["STP Count"],
        "scratch": [],
        "moved": [],
        "registers": ["Registers used"],
        "occupancy": ["Max Waves Per Core"],
        "instructions": ["Instruction Count"],
        "cycles": ["Estimated cycles stalled on SY"],
    },
}
UNITS = {
    "amd": "occupancy: subgroups a SIMD; cycles: busy ones of a subgroup; moved: scalar registers kept in lanes of "
    "vector ones",
    "nvidia": "occupancy: warps an SM; cycles: of fixed latency; moved: uniform registers kept in vector ones",
    "intel": "occupancy: invocations of a subgroup (a wider program has more at a time); cycles: a rough estimate",
    "apple": "occupancy: threads; registers of 16 bits; cycles: of the ALU",
    "qualcomm": "occupancy: waves a core; cycles: stalls for memory",
}
COMPARED = ["spills", "scratch", "occupancy"]
HIGHEST = ["spills", "scratch", "moved", "registers", "instructions", "cycles"]


class Fault(Exception):
    """What the user is told instead of a trace."""


def statistics_of(vendor, made):
    """What one pipeline's statistics mean; None where the driver tells nothing."""
    found = []
    for executable in made.get("executables", []):
        values = dict(executable["statistics"], subgroup=executable["subgroup"])
        row = {}
        for meaning, names in NAMES[vendor].items():
            row[meaning] = next((values[name] for name in names if name in values), 0 if names == [] else None)
        found.append(row)
    if not found:
        return None
    # Of programs for several sizes of subgroups the driver takes the widest that does not spill.
    found.sort(key=lambda row: (row["spills"] or 0, -(row["occupancy"] or 0)))
    return found[0]


def read_chip(path, vendor):
    """{name of a pipeline: [its specialisations]}, the shaders that nothing made, and what is wrong with the file or
    None."""
    made, begun, used, shaders, wrong = {}, None, {}, set(), None
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
            except ValueError as error:
                wrong = wrong or f"line {number} of what the driver says is no JSON: {error}"
                continue
            if "device" in line:
                shaders.update(line["shaders"])
                continue
            shader = line.get("making") or line.get("made") or line.get("used")
            key = (shader, tuple(line["spec"]), line["subgroup"])
            if "making" in line:
                begun = key
            elif "made" in line:
                made[key] = line
                begun = None
            else:
                used.setdefault(key, {})[line["variant"]] = line["forced"]
    if begun:
        made[begun] = {"error": "the driver ended the program while it made this pipeline"}
    pipelines = {}
    for key, line in made.items():
        shader, spec, subgroup = key
        for variant, forced in used.get(key, {None: False}).items():
            row = {"spec": list(spec), "subgroup": subgroup, "forced": forced, "error": line.get("error")}
            row["statistics"] = None if row["error"] else statistics_of(vendor, line)
            pipelines.setdefault(f"{variant} {shader}" if variant else shader, []).append(row)
    return pipelines, shaders - {key[0] for key in made}, wrong


def untold(vendor, pipelines):
    """What is compared, and what the driver does not tell of a pipeline that it made: lines."""
    rows = [(name, row) for name, rows in sorted(pipelines.items()) for row in rows if not row["error"]]
    lines = []
    for what in COMPARED:
        lacking = [name for name, row in rows if not row["statistics"] or row["statistics"][what] is None]
        if lacking:
            names = " or ".join(f"'{name}'" for name in NAMES[vendor][what]) or what
            share = f"{len(lacking)} of {len(rows)} pipelines"
            lines.append(f"the driver does not tell {names} of {share}, first {lacking[0]}")
    return lines


def worst(rows):
    """One row of many specialisations of a pipeline."""
    row = {"n": len(rows), "error": next((r["error"] for r in rows if r["error"]), None)}
    known = [r["statistics"] for r in rows if r["statistics"]]
    for what in HIGHEST:
        row[what] = max((r[what] for r in known if r[what] is not None), default=None)
    row["occupancy"] = min((r["occupancy"] for r in known if r["occupancy"] is not None), default=None)
    return row


def digest(row):
    return f"{zlib.crc32(json.dumps([row['spec'], row['subgroup']]).encode()) & 0xffff:04x}"


def read_results(folder, chips):
    """[(chip's column, pipelines or None, never made, remark)]"""
    results = []
    for column in chips:
        base = os.path.join(folder, column)
        if os.path.exists(base + ".skipped"):
            with open(base + ".skipped", encoding="utf-8") as file:
                results.append((column, None, set(), file.read().strip()))
        elif os.path.exists(base + ".code"):
            with open(base + ".code", encoding="utf-8") as file:
                code = file.read().strip()
            log = []
            if os.path.exists(base + ".log"):
                with open(base + ".log", encoding="utf-8", errors="replace") as file:
                    log = [line.rstrip() for line in file]
            pipelines, never, wrong = {}, set(), None
            vendor = column.split("-")[0]
            if os.path.exists(base + ".json"):
                pipelines, never, wrong = read_chip(base + ".json", vendor)
            # The program ends with 1 where a pipeline does not compile, which is told of that pipeline.
            refused = any(row["error"] for rows in pipelines.values() for row in rows)
            remarks = []
            if not code.isdigit():
                remarks.append("it was stopped before its program ended: " + " | ".join(log[-3:]))
            elif code not in ("0", "1") or (code == "1" and not refused) or not pipelines:
                remarks.append(f"the program ended with {code}: " + " | ".join(log[-3:]))
            if wrong:
                remarks.append(wrong)
            remark = "; ".join(remarks + untold(vendor, pipelines)) or None
            results.append((column, pipelines, never, remark))
    return results


def text_of(value):
    return "-" if value is None else str(value)


def print_table(results, every):
    columns = ["chip", "n", "spills", "scratch", "moved", "registers", "occupancy", "instructions", "cycles"]
    for vendor in NAMES:
        those = [r for r in results if r[0].startswith(vendor + "-") and r[1]]
        if not those:
            continue
        names = sorted({name for _, pipelines, _, _ in those for name in pipelines})
        lines = []
        for name in names:
            for column, pipelines, _, _ in those:
                chip = column.split("-", 1)[1]
                rows = pipelines.get(name, [])
                for group in [[r] for r in rows] if every else [rows] if rows else []:
                    row = worst(group)
                    label = name + (f" {','.join(map(str, group[0]['spec']))}" if every else "")
                    if row["error"]:
                        lines.append([label, chip, row["error"]])
                    else:
                        lines.append([label, chip] + [text_of(row[c]) for c in columns[1:]])
        print(f"\n{vendor} ({UNITS[vendor]}; n: specialisations; the figures are the worst of them)")
        header = ["pipeline"] + columns
        whole = [line for line in lines if len(line) == len(header)]
        widths = [max([len(line[i]) for line in whole] + [len(header[i])]) for i in range(len(header))]
        previous = None
        for line in [header] + lines:
            label = line[0] if line[0] != previous else ""
            previous = line[0]
            cells = [label.ljust(widths[0]), line[1].ljust(widths[1])]
            cells += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:])] if len(line) > 3 else line[2:]
            print("  ".join(cells).rstrip())


def print_json(results):
    for column, pipelines, _, remark in results:
        if remark:
            print(json.dumps({"chip": column, "remark": remark}))
        for name, rows in sorted((pipelines or {}).items()):
            for row in rows:
                print(json.dumps(dict({"chip": column, "pipeline": name}, **row)))


def read_record(path):
    """{pipeline: {column: (occupancy, spills)}}, {pipeline: digests of its specialisations}"""
    record, columns, digests = {}, [], {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if not columns:
                if words[0] != "pipeline":
                    raise Fault(f"{path}:{number}: the first line should name the columns, from 'pipeline' on")
                columns = words[1:]
                continue
            if words[0] == "+":
                name, colon, rest = " ".join(words[1:]).partition(":")
                if not colon:
                    raise Fault(f"{path}:{number}: a colon expected behind the pipeline's name")
                digests[name] = set(rest.split())
                continue
            cells = words[-len(columns) :]
            name = " ".join(words[: -len(columns)])
            if not name or len(words) > len(columns) + 2:
                raise Fault(f"{path}:{number}: {len(columns)} columns expected behind the pipeline's name")
            record[name] = {}
            for column, cell in zip(columns, cells):
                if cell != "-":
                    occupancy, _, spills = cell.partition("!")
                    try:
                        record[name][column] = (int(occupancy), int(spills or 0))
                    except ValueError as error:
                        raise Fault(f"{path}:{number}: '{cell}' is no occupancy") from error
    return record, digests


def spills_of(row):
    """What is not told counts as nothing here: that is a remark of the whole chip, which fails."""
    return (row["spills"] or 0) + (row["scratch"] or 0)


def compare(record, digests, results, whole):
    """Lines of what is worse, and of what is merely new; how many were compared, and how many could not be."""
    failures, notes = [], []
    n_compared, n_new = 0, 0
    for column, pipelines, _, remark in results:
        if pipelines is None:
            notes.append(f"{column} {remark}")
            continue
        if remark:
            failures.append(f"{column}: {remark}")
        for name, rows in sorted(pipelines.items()):
            row = worst(rows)
            # Without any that is recorded the constants mean something else by now: all are held against the record.
            like = worst([r for r in rows if digest(r) in digests.get(name, ())] or rows)
            known = record.get(name, {}).get(column)
            occupancy, allowed = known or (None, 0)
            if row["error"]:
                failures.append(f"{column} {name}: does not compile: {row['error']}")
            elif spills_of(row) > allowed:
                found = f"spills {row['spills']}, scratch {row['scratch']}"
                failures.append(f"{column} {name}: {found}; {allowed} recorded")
            elif occupancy and like["occupancy"] is not None and like["occupancy"] < 0.9 * occupancy:
                failures.append(f"{column} {name}: occupancy {like['occupancy']}, {occupancy} recorded")
            elif not known:
                new = "recorded as never made there (-), not compared" if name in record else "new"
                notes.append(f"{column} {name}: {new}, occupancy {text_of(row['occupancy'])}")
            n_compared += known is not None
            n_new += known is None
    # What a program that failed did not come to make is no news.
    complete = {column: pipelines for column, pipelines, _, remark in results if pipelines is not None and not remark}
    gone = {}
    for name, cells in sorted(record.items()):
        columns = [column for column in complete if column in cells and name not in complete[column]]
        if columns:
            gone[name] = columns
    if whole:
        failures += [f"{name}: recorded, but no longer made on {' '.join(columns)}" for name, columns in gone.items()]
    elif gone:
        n_cells = sum(len(columns) for columns in gone.values())
        notes.append(
            f"{len(gone)} recorded pipelines ({n_cells} with their chips) are not in this limited run: not compared"
        )
    if n_compared == 0:
        failures.append("nothing was compared")
    return failures, notes, n_compared, n_new


def figures(column, name, rows):
    """(occupancy, spills) of a pipeline's specialisations, or None: it is never made there, or nothing is told."""
    row = worst(rows) if rows else None
    if row and row["error"]:
        raise Fault(f"not recorded: {column} {name} does not compile: {row['error']}")
    return (row["occupancy"], spills_of(row)) if row and row["occupancy"] is not None else None


def cell_of(known):
    if not known:
        return "-"
    occupancy, spills = known
    return f"{occupancy}" + (f"!{spills}" if spills else "")


def write_record(path, results, chips):
    """The columns of results anew, the others as they are recorded."""
    missing = [f"{column} {remark}" for column, pipelines, _, remark in results if remark or not pipelines]
    if missing:
        raise Fault("not recorded: " + "; ".join(missing))
    table = {column: pipelines for column, pipelines, _, _ in results}
    others = [column for column in chips if column not in table]
    record, digests = read_record(path) if others else ({}, {})
    kept = {name for name, cells in record.items() if any(column in cells for column in others)}
    names = sorted(kept.union(*table.values()))
    lines = [["pipeline"] + chips]
    for name in names:
        cells = []
        for column in chips:
            known = record.get(name, {}).get(column)
            if column in table:
                known = figures(column, name, table[column].get(name))
            cells.append(cell_of(known))
        lines.append([name] + cells)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(
            "# What each pipeline reached on each chip, written by tools/lab/run --update: the occupancy of its worst\n"
            "# specialisation in the driver's own unit (tools/lab/table.py), behind a ! what it spills, - where it is "
            "never made;\n# below, digests of the specialisations.\n"
        )
        for line in lines:
            cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
            file.write(" ".join(cells).rstrip() + "\n")
        for name in names:
            made = {digest(row) for pipelines in table.values() for row in pipelines.get(name, [])}
            made |= digests.get(name, set()) if name in kept else set()
            file.write(f"+ {name}: {' '.join(sorted(made))}\n")
    os.replace(part, path)
    return len(names)


def print_remarks(results):
    for column, pipelines, never, remark in results:
        if remark:
            print(f"{column}: {remark}")
        elif never:
            print(f"{column}: {len(pipelines)} pipelines; never made: {' '.join(sorted(never))}")


def main(arguments):
    show, folder, path, seconds, extent, chips = arguments
    chips = [line.replace(" ", "-") for line in chips.splitlines()]
    results = read_results(folder, chips)
    if not results:
        raise Fault("no chip is selected")
    if show == "json":
        print_json(results)
        return 0
    if show in ("table", "every"):
        print_table(results, show == "every")
        print()
        print_remarks(results)
        n_made = sum(len(rows) for _, pipelines, _, _ in results for rows in (pipelines or {}).values())
        print(f"{len(results)} chips, {n_made} pipelines, {seconds} s")
        errors = any(r["error"] for _, pipelines, _, _ in results for rows in (pipelines or {}).values() for r in rows)
        failed = any(remark and pipelines is not None for _, pipelines, _, remark in results)
        return 1 if errors or failed or all(pipelines is None for _, pipelines, _, _ in results) else 0
    if show == "update":
        n_names = write_record(path, results, chips)
        print(f"{path}: {n_names} pipelines on {len(results)} chips, {seconds} s")
        return 0
    failures, notes, n_compared, n_new = compare(*read_record(path), results, extent == "whole")
    for line in notes:
        print(line)
    for line in failures:
        print("FAILED: " + line)
    n_skipped = sum(pipelines is None for _, pipelines, _, _ in results)
    print(
        f"{n_compared} compared on {len(results) - n_skipped} chips, {len(failures)} failed, "
        f"{n_skipped} chips skipped, {n_new} not recorded, {seconds} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Fault, OSError) as fault:
        print(f"tools/lab/run: {fault}", file=sys.stderr)
        sys.exit(2)

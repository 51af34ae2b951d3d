"""The ways a table goes wrong: each takes a random generator and gives files, in merge order."""

from __future__ import annotations

from tests.aiter.rows import HEADER, ladder, row, table

INTS = ("token", "model_dim", "inter_dim", "expert", "topk", "cu_num", "use_g1u1", "doweight_stage1")
TOKENS = (1, 2, 4, 8, 16, 32, 64, 1024)


def tables(random, columns=HEADER):
    """One to three tables of different shapes, as lists of lines."""
    files = []
    for number in range(random.choice((1, 2, 3))):
        rows = ladder(random.sample(TOKENS, 4), inter_dim=256 << number, expert=random.choice((256, 257)))
        files.append(table(rows, columns).decode().splitlines())
    return files


def joined(files):
    return [("\n".join(lines) + "\n").encode() for lines in files]


def at_random(random, files):
    lines = random.choice(files)
    return lines, random.randrange(1, len(lines))


def cell(random, name, values):
    files = tables(random)
    lines, at = at_random(random, files)
    fields = lines[at].split(",")
    fields[HEADER.index(name)] = random.choice(values)
    lines[at] = ",".join(fields)
    return joined(files)


def good(random):
    return joined(tables(random))


def header_in_the_middle(random):
    files = tables(random)
    lines, at = at_random(random, files)
    lines.insert(at, lines[0])
    return joined(files)


def not_a_number(random):
    return cell(random, random.choice(INTS), ("x", "1k", "0x10", "1_0", "--", "16 32", "nan%"))


def odd_number(random):
    odd = ("16.0", " 16", "16 ", "1e3", "+8", "-1", "016", "1.5", "inf", "", "NaN", "nan")
    return cell(random, random.choice(INTS), odd)


def truth_value(random):
    name = random.choice(("use_g1u1", "doweight_stage1", "run_1stage"))
    return cell(random, name, ("True", "False", "TRUE", "true"))


def all_truth_values(random):
    files = tables(random)
    at = HEADER.index(random.choice(("use_g1u1", "doweight_stage1")))
    lines = random.choice(files)
    for number in range(1, len(lines)):
        fields = lines[number].split(",")
        fields[at] = {"1": "True", "0": "False"}[fields[at]]
        lines[number] = ",".join(fields)
    return joined(files)


def trailing_commas(random):
    files = tables(random)
    lines = random.choice(files)
    lines[1:] = [line + "," for line in lines[1:]]
    return joined(files)


def misspelt_text(random):
    name = random.choice(("act_type", "gfx", "dtype", "q_type"))
    wrong = ("Silu", "gfx950 ", "", "0", "QuantType.per_1x32 ", "ActivationType.Gelu", "None")
    return cell(random, name, wrong)


def extra_field(random):
    files = tables(random)
    lines, at = at_random(random, files)
    lines[at] += ",1"
    return joined(files)


def short_row(random):
    files = tables(random)
    lines, at = at_random(random, files)
    lines[at] = lines[at].rsplit(",", random.randrange(1, 20))[0]
    return joined(files)


def line_ends(random):
    end = random.choice((b"\r\n", b"\r"))
    return [data.replace(b"\n", end) if random.random() < 0.7 else data for data in joined(tables(random))]


def byte_order_mark(random):
    return [b"\xef\xbb\xbf" + data for data in joined(tables(random))]


def quotes(random):
    files = tables(random)
    lines, at = at_random(random, files)
    fields = lines[at].split(",")
    which = random.randrange(len(fields))
    text = fields[which]
    fields[which] = random.choice((f'"{text}"', f'"{text}', f'{text}"', '"a,b"', '""', '"a""b"'))
    lines[at] = ",".join(fields)
    return joined(files)


def stray_line(random):
    files = tables(random)
    lines, at = at_random(random, files)
    stray = ("# a note", "<<<<<<< HEAD", "=======", ">>>>>>> x", "", "   ", "\t", ",,,", "1")
    lines.insert(at, random.choice(stray))
    return joined(files)


def missing_column(random):
    gone = random.choice(HEADER)
    files = tables(random, [name for name in HEADER if name != gone])
    if random.random() < 0.5:
        files.append(table(ladder(inter_dim=2048)).decode().splitlines())
    return joined(files)


def no_gfx(random):
    files = joined(tables(random, HEADER[1:]))
    if random.random() < 0.7:
        files.append(table(ladder(inter_dim=4096)))
    if random.random() < 0.4:
        files.append(table(ladder(inter_dim=8192, cu_num=random.choice((80, 304, 228))), HEADER[1:]))
    random.shuffle(files)
    return files


def no_text_in_gfx(random):
    """Zeros and gaps where the chip should be, in one file or in all of them."""
    files = tables(random)
    for lines in files if random.randrange(2) else files[:1]:
        values = random.choice((("0",), ("",), ("0", ""), ("nan", "0"), ("0.0", "1"), ("5", ""), ("True", "")))
        for number in range(1, len(lines)):
            lines[number] = ",".join([random.choice(values), *lines[number].split(",")[1:]])
    return joined(files)


def duplicate_in_a_file(random):
    files = tables(random)
    lines, at = at_random(random, files)
    fields = lines[at].split(",")
    us = HEADER.index("us")
    fields[us] = random.choice(("5.25", "500.0", fields[us], "", "nan"))
    fields[HEADER.index("block_m")] = "64"
    lines.insert(random.randrange(1, len(lines) + 1), ",".join(fields))
    return joined(files)


def duplicate_across_files(random):
    files = tables(random)
    lines, at = at_random(random, files)
    fields = lines[at].split(",")
    fields[HEADER.index("us")] = random.choice(("5.25", "500.0"))
    files.append([",".join(HEADER), ",".join(fields)])
    random.shuffle(files)
    return joined(files)


def act_types(random):
    rows = ladder((1, 2, 4))
    rows += ladder(random.sample((1, 2, 4), 2), act_type="ActivationType.Gelu", block_m=64)
    random.shuffle(rows)
    return [table(rows)]


def tags(random):
    rows = ladder((1, 2, 4))
    tagged = [row(token=t, _tag=random.choice(("flydsl_fallback", "mine", "")), block_m=64) for t in (1, 8)]
    files = [table([*rows, *tagged], [*HEADER, "_tag"])]
    if random.random() < 0.7:
        files.insert(random.randrange(2), table(ladder(inter_dim=1024)))
    return files


def other_chip(random):
    cu_num, us = random.choice((80, 304)), random.choice((1, 99))
    rows = ladder((1, 2, 4)) + ladder((2, 4, 8), gfx="gfx942", cu_num=cu_num, us=us)
    random.shuffle(rows)
    return [table(rows[:3]), table(rows[3:])]


def no_us(random):
    return cell(random, "us", ("", "fast", "12 5", "inf", "-1", "0"))


def empty_file(random):
    empty = (b"", b"\n", (",".join(HEADER) + "\n").encode(), b"\xff\xfe,1\n")
    return [*joined(tables(random)), random.choice(empty)]


def no_rows(random):
    """A header alone, anywhere, often of other columns than the rest; now and then no file has a row."""
    headers = (HEADER, [*HEADER, "xbf16"], [*HEADER, "_tag"], HEADER[1:], HEADER[:-2])
    files = joined(tables(random)) if random.randrange(8) else []
    for _ in range(random.choice((1, 2))):
        files.insert(random.randrange(len(files) + 1), table([], random.choice(headers)))
    return files


def other_order(random):
    return [*joined(tables(random)), table(ladder(inter_dim=2048), random.sample(HEADER, len(HEADER)))]


def extra_column(random):
    rows = [{**r, "xbf16": "1", "flat": ""} for r in ladder(inter_dim=2048)]
    return [*joined(tables(random)), table(rows, [*HEADER, "xbf16", "flat"])]


CLASSES = (
    good, header_in_the_middle, not_a_number, odd_number, truth_value, all_truth_values, trailing_commas,
    misspelt_text, extra_field, short_row, line_ends, byte_order_mark, quotes, stray_line, missing_column,
    no_gfx, no_text_in_gfx, duplicate_in_a_file, duplicate_across_files, act_types, tags, other_chip, no_us, empty_file,
    no_rows, other_order, extra_column,
)  # fmt: skip

"""The terms that reports use, each explained in one or two plain sentences. The page and the docs show the same
text.
"""

from __future__ import annotations

from collections.abc import Mapping

GLOSSARY: Mapping[str, str] = {
    "A/A experiment": "An experiment that compares a layout with itself, under two labels. A report on it should name "
    "no winner, and its intervals show how small a difference the machine can reveal.",
    "allocation page": "A page that records which pages or extents of a data file are in use: PFS, GAM and SGAM in SQL "
    "Server. Sessions that need free space wait for its latch.",
    "analogue": "The wait type of SQL Server that comes closest to a wait of another engine.",
    "answer": "What a report says first: what to use, the ladder, why, what is doubtful, and what to do next.",
    "attached server": "A server that was already running. storagelab connects to it, and removes only what it made.",
    "best of block": "The fastest layout of its block. Blocks are not tested against each other.",
    "best set": "The layouts that may be the fastest: at 95 %, a fastest one is among them.",
    "block": "Runs that share one preparation: the same drives from one format to the next, or the same level of a "
    "costly factor. Measured layouts of different blocks are compared if each level was prepared several times.",
    "burn-in": "Runs at the beginning that bring drives into a used state. They are stored but not judged.",
    "campaign": "All runs of one experiment in one folder of results. `run` goes on with it after an interruption.",
    "carry-over": "What a run leaves behind for the next one, such as a fuller drive or a warm cache.",
    "caution": "A fact about the measurement that may mislead you. The answer names the worst under Doubt.",
    "cell": "One combination of the levels of all factors: a layout under one load.",
    "checkpoint": "The moment at which a server writes the changed pages in its memory to the drives. Reports show the "
    "final checkpoint of a run separately.",
    "choice": "A factor that you decide on: layout, drives, server or settings. Reports say which level is fastest.",
    "condition": "A factor that you don't decide on, such as a load. Layouts are compared under each level.",
    "confidence interval (95 % CI)": "A range that contains the true value in 95 of 100 experiments. A wide one means "
    "that there are too few runs, or that they differ too much.",
    "connection": "A session with the server that carries out its part of the load.",
    "data file": "One of the files over which a table is spread: a partition in PostgreSQL and MariaDB, a file of a "
    "filegroup in SQL Server.",
    "default pick": "The layout to take if you prefer none: the fastest of those that may be, or the cheapest within "
    "1 % (or `indifferent`) of it: fewest files, most capacity, fewest drives, or the order that the spec prefers.",
    "drift": "A change of times from the first run to the last that has nothing to do with the layouts.",
    "DSN": "The address of a server that runs, such as `postgresql://me@host/db`. Never with a password in a spec.",
    "effect": "How much longer or shorter runs take at one level of a factor than at another, all else the same.",
    "explained": "The share of the sessions' time that waits and CPU time add up to. Far from 100 %, the wait table "
    "misses or repeats something.",
    "extension": "The growth of a data file. PostgreSQL's sessions wait for it in Lock:extend.",
    "extent": "A group of neighbouring pages that a server allocates together: 8 pages in SQL Server.",
    "factor": "Something that the experiment varies, such as the number of data files. Any key of a spec can be one.",
    "fastest": "The verdict on a layout that is faster than all others, where chance is an unlikely explanation.",
    "gain": "The share of the time that the better levels of a factor save, on average over the other factors.",
    "host": "A machine on which runs were made. An odd host is slower or faster than the others, or ranks layouts "
    "differently, by more than chance explains.",
    "interaction": "The effect of one factor depends on the level of another.",
    "joint interval": "One of several intervals that all contain their true values together in 95 of 100 experiments. "
    "It is wider than a separate interval.",
    "ladder": "A row for each layout, the fastest first: its time over that of the fastest with its interval, "
    "its mean, and its verdict.",
    "latch": "A short lock on a page or another structure in the server's memory, not on rows or tables.",
    "latency": "The time from a request, or a transaction's start, to its end. 99 of 100 stay below the p99.",
    "layout": "A choice of data files, volumes, place of the log, and settings with which the server writes.",
    "level": "One value of a factor.",
    "load": "What the connections do: inserts, reads, transactions or requests, and how many connections there are.",
    "lock": "A session's claim on rows or tables, often until its transaction ends. Other sessions wait for it.",
    "may be fastest": "The verdict on a layout that may be the fastest: at 95 %, a fastest one is among those with "
    "this verdict. It may still be slower; the report says by how much at most.",
    "measured": "The provenance of runs on a real server or drive, timed by a clock.",
    "nominally fastest": "The layout with the shortest mean. Others may be as fast: see may be fastest.",
    "not conclusive": "The runs can't answer the question, for example because the CPUs were the limit.",
    "not fastest": "The verdict on a layout that is not the fastest (95 %), though these runs don't show by themselves "
    "that it is slower than the one in front.",
    "not judged": "The verdict on a layout that could not be tested: too few runs in the same rounds, another block, "
    "or an order without rounds.",
    "odd run": "A run far from what its layout and its round suggest, by more than chance explains.",
    "over-provisioning": "The part of a flash drive's raw capacity that can't be addressed. The drive needs it to "
    "collect garbage; the more there is, the less extra writing.",
    "private server": "A server that storagelab starts for a run and removes afterwards.",
    "provenance": "Where figures come from: measured or simulated.",
    "queue depth": "The number of requests in progress at a device at the same time.",
    "race": "A campaign that repeats only those layouts that may still be the fastest.",
    "recipe": "A ready-made spec for one question. `storagelab init` lists them, and writes one.",
    "repetition": "One of the runs of a cell. In the usual orders, each repetition is a round of all cells.",
    "resource time": "The part of a wait in which the resource was not ready: the page not read, the lock not free.",
    "round": "One run of each cell, in random order. Layouts are compared within rounds, so a change of the machine "
    "between rounds affects all alike.",
    "run": "One measurement of one cell. It starts from a known state and has its own time, waits and counters.",
    "sampled": "Estimated from looks at the sessions, many times a second. Marked with ~.",
    "scale": "The number by which a simulated server divides rows, memory and drives. Cores, files and latencies stay.",
    "signal time": "The part of a wait in which the resource was ready, and the session queued for a CPU.",
    "simulated": "The provenance of runs on a model of a server and its drives. No drive was measured.",
    "slower": "The verdict on a layout that is slower than the fastest. The interval says by how much.",
    "spread": "The standard deviation of the times of a cell's runs, in percent of their mean. Also called sd.",
    "steady state": "The state of a drive whose throughput no longer changes: five rounds within 20 % of their mean, "
    "with a slope within 10 %.",
    "template": "A database that is made once and copied for each run.",
    "unverified": "The status of a run in which something was not as asked or could not be read back. The run "
    "counts, with its reason.",
    "verdict": "What the runs say about a layout: fastest, may be fastest, not fastest, slower or not judged.",
    "volume": "A place for files, on one drive or an array. A spec names it.",
    "wait class": "The kind of thing that is waited for, such as a read, a commit or a latch. The waits of several "
    "engines are compared by class (in the export: category).",
    "wait type": "The engine's own name for what a session waits for.",
    "WAL": "Write-ahead log: changes are written there before they count as committed. Here also: the log.",
    "warm-up": "The time at the beginning of a run that does not count.",
    "write amplification": "How much a drive writes for each byte that it is given; over 1 if it collects garbage.",
}  # fmt: skip
"""Term -> its meaning, in alphabetical order. Terms are headings of the docs, so other pages link to them."""

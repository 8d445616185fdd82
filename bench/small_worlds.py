"""The small simulated server of campaigns that are measured for their number of runs."""

SERVER = """
[target]
engine = "simulated"
scale = 1000
[server]
cores = 4
memory = "4GB"
[drives.ssd]
profile = "iodrive-320"
format = "basic"
driver = "2.2.3"
sector_bytes = 512
[volumes.a]
drives = ["ssd"]
[workload]
connections = 8
"""

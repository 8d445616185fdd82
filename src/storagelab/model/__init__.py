"""The values that pass from one part of storagelab to the next. All of them are frozen.

spec -> Experiment -> Plan (blocks of cells) -> Target.run -> Measurement -> Run -> Store -> Findings -> Report"""

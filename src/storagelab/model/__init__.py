"""The values that flow through the pipe, all frozen.

spec -> Experiment -> Plan (blocks of cells) -> Target.run -> Measurement -> Run -> Store -> Findings -> Report
"""

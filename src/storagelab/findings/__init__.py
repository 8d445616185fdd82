"""From runs to findings: statistics, verdicts, and what is doubted. Nothing here touches the outside world."""

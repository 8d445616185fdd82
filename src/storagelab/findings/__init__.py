"""From runs to findings: statistics, verdicts, and cautions. Nothing here touches the outside world."""

"""What to tell: one plain record per test, from which every form of report is made."""

"""What a single chapter needs: its tables, figures and sentences, named chNN_*."""

"""What all charts share: their places, their look, and how they are drawn."""

"""Where does the limit lie? Levels, one after the other, and the search for the highest that holds a service level."""

package config

// ParseAgent reads the text of an agent's file.
var ParseAgent = parseAgent

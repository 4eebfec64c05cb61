package config

// Read reads one file. The error is an [*Error] if the file is there and wrong.
func Read(path string) (*Config, error) {
	c, err := read(path, false)
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// ParseAgent reads the text of an agent's file.
var ParseAgent = parseAgent

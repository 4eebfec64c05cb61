package config

import (
	"fmt"
)

// Value is one value of the files as they have it, to be shown: secrets are masked.
type Value struct {
	Key  string // such as limits.steps
	Text string
	// File is empty where no file says it.
	File         string
	Line, Column int
}

// Origin is where the value comes from.
func (v *Value) Origin() string {
	if v.File == "" {
		return "default"
	}
	return fmt.Sprintf("%s:%d", v.File, v.Line)
}

package env

import (
	"time"

	"github.com/troupe-dev/troupe/internal/age"
)

// Age is the value of a flag: a time such as 90d, 36h or 10m.
type Age time.Duration

// String implements the interface of flags.
func (a *Age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Set implements the interface of flags.
func (a *Age) Set(text string) error {
	d, err := age.Parse(text)
	*a = Age(d)
	return err
}

// Type implements the interface of flags.
func (a *Age) Type() string { return "time" }

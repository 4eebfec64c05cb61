package ollama

import "fmt"

// String returns provider and server: keys are in no form of printing.
func (o Options) String() string {
	host := o.Host
	if u, err := parseHost(host); err == nil && host != "" {
		host = u.Host
	} else if err != nil {
		host = "(not valid)"
	}
	return fmt.Sprintf("{Provider:%s Host:%s}", o.Provider, host)
}

// GoString returns what String does.
func (o Options) GoString() string { return "ollama.Options" + o.String() }

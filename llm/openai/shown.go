package openai

import (
	"fmt"

	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// String returns provider and server: keys are in no form of printing.
func (o Options) String() string {
	return fmt.Sprintf("{Provider:%s BaseURL:%s}", o.Provider, rest.Shown(o.BaseURL))
}

// GoString returns what String does.
func (o Options) GoString() string { return "openai.Options" + o.String() }

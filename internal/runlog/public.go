package runlog

import (
	"bytes"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Public returns an event as it leaves the store: to a file, to a page, to a reader. What providers attach to answers of their models
// ([llm.ProviderState]) is left out: it is theirs, and of use to nothing but the run itself. An event that cannot be read is returned as it is.
func Public(ev store.Event) store.Event {
	if !bytes.Contains(ev.Body, []byte(`"state":[`)) { // as Encode writes it; most events end here
		return ev
	}
	e, err := Decode(ev)
	if err != nil {
		return ev
	}
	switch b := e.Body.(type) {
	case *ModelResult:
		b.Message.State = nil
	case *RunStarted:
		b.Input = withoutState(b.Input)
	default:
		return ev
	}
	public, err := e.Encode()
	if err != nil {
		return ev
	}
	ev.Body = public.Body
	return ev
}

func withoutState(messages []llm.Message) []llm.Message {
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		out[i] = llm.Message{Role: m.Role, Content: m.Content}
	}
	return out
}

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// maxStartedWith bounds [RunOptions].StartedWith, in bytes.
const maxStartedWith = 64 << 10

func checkStartedWith(with json.RawMessage) error {
	var object map[string]json.RawMessage
	switch {
	case len(with) == 0:
		return nil
	case len(with) > maxStartedWith:
		return fmt.Errorf("StartedWith has %d bytes: %d are the most", len(with), maxStartedWith)
	}
	if err := jsonx.Unmarshal(with, &object); err != nil || object == nil {
		return fmt.Errorf("StartedWith is no JSON object: %w", cmp.Or(err, fmt.Errorf("it is %.40s", with)))
	}
	return nil
}

// startedWith is what is recorded of a run.
func (rt *Runtime) startedWith(own json.RawMessage) json.RawMessage {
	if len(own) > 0 {
		return own
	}
	return rt.opts.StartedWith
}

// StartedWith returns what the program that started the run, or that has gone on with it since, has kept of how
// it did: see [RunOptions]. It is nil if that is nothing, and for a run of a sub-agent. What is in it is
// no consent: the journal of an imported run has none, and the program decides today what it starts.
func (rt *Runtime) StartedWith(ctx context.Context, id string) (json.RawMessage, error) {
	s, err := runlog.Fold(ctx, rt.store, id)
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", id, err)
	}
	return s.With, nil
}

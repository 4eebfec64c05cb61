package agent

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Conversation returns the messages of a run so far, the results of its tools included,
// for [RunOptions].History of the next one. It is read from the store, so the run may be
// of another process or of the past. A call that a killed run left open is missing in it.
//
// Of a conversation that was cut, see [Config].ContextLength, it is what is left, with the note on the rest: the next run
// sends exactly what the last one sent, and more behind it, so that a provider can reuse the prompt. The events of
// the runs have all of it. The error of an unknown run is [store.ErrNotFound].
func (rt *Runtime) Conversation(ctx context.Context, runID string) ([]llm.Message, error) {
	if _, err := rt.store.Run(ctx, runID); err != nil {
		return nil, fmt.Errorf("reading the conversation of run %q: %w", runID, err)
	}
	var s runlog.State
	for ev, err := range store.Replay(ctx, rt.store, runID, 0) {
		var e runlog.Entry
		if err == nil {
			e, err = runlog.Decode(ev)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the conversation of run %q: %w", runID, err)
		}
		s.Add(&e)
	}
	return s.Messages(), nil
}

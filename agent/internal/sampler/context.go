package sampler

import (
	"context"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

const (
	// maxContext bounds the text that is added to a server's request, in bytes.
	maxContext = 32 << 10
	// contextEvents bounds how much of a journal is read for it.
	contextEvents = 4096
)

// callsOf describes the calls that a run has made of servers, in their order.
func callsOf(ctx context.Context, journal store.Journal, run string, of func(server string) bool) ([]string, error) {
	var calls []string
	arguments := make(map[string]string)
	read := 0
	for ev, err := range store.Replay(ctx, journal, run, 0) {
		if err != nil {
			return nil, fmt.Errorf("reading the run's journal: %w", err)
		}
		if read++; read > contextEvents {
			break
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			return nil, err
		}
		switch b := e.Body.(type) {
		case *runlog.ToolIntent:
			if of(b.Server) {
				arguments[e.Key] = string(b.Arguments)
			}
		case *runlog.ToolResult:
			if of(b.Server) && b.Made {
				calls = append(calls, fmt.Sprintf("The tool %s of the server %s was called with %s and has answered:\n%s",
					b.Tool, b.Server, arguments[e.Key], clip.Text(b.Result.Content.Text(), maxContext/4)))
			}
			delete(arguments, e.Key)
		}
	}
	return calls, nil
}

// newest keeps the last texts that fit.
func newest(texts []string, most int) []string {
	size := 0
	for i, text := range slices.Backward(texts) {
		if size += len(text); size > most {
			return texts[i+1:]
		}
	}
	return texts
}

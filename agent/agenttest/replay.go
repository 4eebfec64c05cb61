package agenttest

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/replay"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/store/memstore"
)

// ReplayOptions change a replay; nil is the same as the zero value.
type ReplayOptions struct {
	// Agent defines the agent that does the run again. Its Model and Servers are not used, and its
	// instructions are not compared. Leave out tools that are agents: the recording answers their
	// calls. Nil is an agent as the recording has it.
	Agent *agent.Config
	// Live makes the calls of the functions in Agent.Tools. Without it the recording answers them.
	Live bool
	// Runtime is the rest of the runtime. Its Model, Servers, Tools, OnAsk and Store are not used.
	Runtime agent.Options
}

// Replay does a run again that "troupe runs export" has written to a file, and fails the test where
// the agent does something else: calls, questions, results, limits, guards, the answer. The file has
// the answers of the model, of the tools and of the person; no call leaves the process.
func Replay(t testing.TB, file string, o *ReplayOptions) {
	t.Helper()
	opts := cmp.Or(o, new(ReplayOptions))
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	all, err := runfile.Read(in)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	rec, err := replay.New(&all[0])
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	want, got, err := rec.Run(t.Context(), memstore.New(nil), &replay.Options{Config: opts.Agent, Runtime: opts.Runtime, Live: opts.Live})
	switch {
	case err != nil:
		t.Fatalf("replaying %s: %v", file, err)
	case !slices.Equal(want, got):
		t.Errorf("the run of %s is another one now (- before, + now):\n%s", file, difference(want, got))
	}
}

func difference(want, got []string) string {
	var b strings.Builder
	for _, l := range linediff.Lines(want, got) {
		b.WriteString(string(l.Mark) + " " + l.Text + "\n")
	}
	return b.String()
}

package mcpserver_test

import (
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// A call with a loop of two turns and two tools, over a pipe, with a model that costs
// nothing.
func BenchmarkSampleLoop(b *testing.B) {
	trip := llmtest.Loop(
		llmtest.Calls(llmtest.Call("weather", `{"place":"Oslo"}`), llmtest.Call("trains", `{"place":"Oslo"}`)),
		llmtest.Say("Go to Oslo."),
	)
	s, _ := newServer(b, &mcpserver.Options{Model: sampling.NewModel(trip, nil)})
	addLoop(b, s, nil, nil)
	a := openAsked(b, s, mcp.V2025_11_25, `{}`)
	a.peer.check = nil
	b.ReportAllocs()
	for b.Loop() {
		if got := a.call("plan", `{}`, respondAda); got != "Go to Oslo." {
			b.Fatalf("got %q", got)
		}
	}
}

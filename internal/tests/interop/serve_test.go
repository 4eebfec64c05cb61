package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-dev/troupe/internal/tests/e2e"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// TestSDKClientDrivesServe: the go-sdk client drives "troupe serve", the real program: the
// fixture behind a gateway is to it as alone, and agents with a server of either era ask
// it what their server asks them.
func TestSDKClientDrivesServe(t *testing.T) {
	troupe, fixture := peers.RequireTroupe(t), peers.RequireFixture(t)
	transports := []struct {
		name string
		open func(t *testing.T, p *peers.Troupe, flags []string) sdk.Transport
	}{
		{"stdio", func(_ *testing.T, p *peers.Troupe, flags []string) sdk.Transport {
			line := p.Line(append([]string{"serve", "--stdio"}, flags...)...)
			cmd := exec.Command(line[0], line[1:]...)
			cmd.Stderr = os.Stderr
			return &sdk.CommandTransport{Command: cmd}
		}},
		{"http", func(t *testing.T, p *peers.Troupe, flags []string) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: p.Serve(t, flags...) + "/mcp"}
		}},
	}
	eras := []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28}
	for _, via := range transports {
		for _, up := range eras {
			for _, down := range eras {
				name := via.name + " " + string(up) + " to " + string(down)
				// The fixture makes a call beside another; those of clients without an identity go one
				// after the other to a legacy server (SECA-6).
				if via.name != "http" || up != mcp.V2026_07_28 || down != mcp.V2025_11_25 {
					t.Run("gateway "+name, func(t *testing.T) {
						t.Parallel()
						p := &peers.Troupe{Program: troupe, Home: t.TempDir()}
						useFixture(t, via.open(t, p, []string{
							"--expose", "tools", "--names", "plain", "--no-store", "--server-protocol", string(down), "--mcp", "fixture=" + fixture + " -stdio",
						}), up)
					})
				}
				t.Run("agents "+name, func(t *testing.T) {
					t.Parallel()
					p, flags := e2e.NewTroupe(t, troupe, map[string][]string{"fixture": {fixture, "-stdio"}})
					flags = append(flags, "--server-protocol", string(down))
					useAgents(t, p, visit(t, via.open(t, p, flags), up))
				})
			}
		}
	}
}

// useAgents lets agents do what they can.
func useAgents(t *testing.T, p *peers.Troupe, v *visitor) {
	do := func(prompt string) string { return v.call("helper", map[string]any{"prompt": prompt}) }
	for _, tt := range []struct{ prompt, want string }{
		{"hello", "hello"},
		{`use fixture__test_elicitation {"message":"Who?"}`, `User response: action=accept, content={"email":"my email","username":"my username"}`},
		{`use fixture__test_sampling {"prompt":"q"}`, "LLM response: reply to q"},
		{"use fixture__test_input_required_result_list_roots", "Roots: file:///project"},
		{"use fixture__test_input_required_result_multi_round", "my name likes my color."},
	} {
		if got := do(tt.prompt); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.prompt, got, tt.want)
		}
	}
	v.acts("decline")
	if got, want := do(`use fixture__test_elicitation {"message":"Who?"}`), "User response: action=decline, content={}"; got != want {
		t.Errorf("a form that is declined: got %q, want %q", got, want)
	}
	v.acts("accept")

	res, err := v.CallTool(v.ctx, &sdk.CallToolParams{Name: "counter", Arguments: map[string]any{"to": 7}})
	if err != nil || res.IsError || !strings.Contains(text(res), `"structuredContent":{"sum":42}`) {
		t.Errorf("counter: got %s, %v, want a sum of 42", text(res), err)
	}
	run, _ := res.Meta["dev.troupe/run"].(string)
	read, err := v.ReadResource(v.ctx, &sdk.ReadResourceParams{URI: "troupe://runs/" + run})
	if err != nil || len(read.Contents) != 2 || !strings.Contains(read.Contents[1].Text, `"state":"finished"`) {
		t.Errorf("the transcript of %q: got %+v, %v", run, read, err)
	}
	prompt, err := v.GetPrompt(v.ctx, &sdk.GetPromptParams{Name: "helper"})
	if err != nil || len(prompt.Messages) != 1 {
		t.Fatalf("the prompt: got %+v, %v", prompt, err)
	}
	if said, ok := prompt.Messages[0].Content.(*sdk.TextContent); !ok || said.Text != "Do as you are told." {
		t.Errorf("the prompt: got %+v", prompt.Messages[0].Content)
	}
	givenUp(t, p, v)
}

// givenUp gives up a run when its tool works: that run is cancelled, and no other.
func givenUp(t *testing.T, p *peers.Troupe, v *visitor) {
	for len(v.steps) > 0 {
		<-v.steps
	}
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		params := &sdk.CallToolParams{Name: "helper", Arguments: map[string]any{"prompt": `use fixture__slow_compute {"seconds":60}`}}
		params.SetProgressToken("given up")
		if _, err := v.CallTool(ctx, params); !errors.Is(err, context.Canceled) {
			t.Errorf("a run that is given up: got %v", err)
		}
	})
	for range 2 { // its first turn, and its call
		select {
		case <-v.steps:
		case <-v.ctx.Done():
			t.Fatal("the progress did not come")
		}
	}
	cancel()
	group.Wait()
	until(t, v.ctx, func() bool {
		out, err := p.Run(v.ctx, "runs", "ls", "--json", "--state", "cancelled")
		var all []struct{ Title string }
		if err != nil || json.Unmarshal(out, &all) != nil {
			t.Fatalf("troupe runs ls: %v\n%s", err, out)
		}
		titles := make([]string, len(all))
		for i, run := range all {
			titles[i] = run.Title
		}
		return slices.Equal(titles, []string{`use fixture__slow_compute {"seconds":60}`})
	})
}

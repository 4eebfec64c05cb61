package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// TestMain lets the test's own program be the server.
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_SERVER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// detective is what a model does here.
func detective() []llmtest.Turn {
	return []llmtest.Turn{
		llmtest.Calls(llmtest.Call("count_by_service", `{"level":"ERROR"}`), llmtest.Call("search_log", `{"text":"PayPal"}`)),
		llmtest.Call("search_log", `{"text":"certificate"}`),
		llmtest.Say("The certificate of pay.example has expired (10:02)."),
	}
}

// asModel lets a model answer for a client.
func asModel(m llm.Model) mcpclient.SamplerFunc {
	return func(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
		turn, err := sampling.Request(req.Params)
		if err != nil {
			return nil, err
		}
		resp, err := llm.Generate(ctx, m, turn)
		if err != nil {
			return nil, err
		}
		return sampling.Result(req.Params, resp)
	}
}

// One server, for clients with a model, for those without one, and for those of
// revisions that know no tools in sampling.
func TestExplain(t *testing.T) {
	tests := []struct {
		name     string
		protocol mcp.Version
		client   bool // it has a model
		own      bool // the server has
		want     string
	}{
		{"the client's model", mcp.V2025_11_25, true, false, "pay.example has expired"},
		{"the client's model, without a connection", mcp.V2026_07_28, true, true, "pay.example has expired"},
		{"the server's model", mcp.V2026_07_28, false, true, "pay.example has expired"},
		{"the server's model for an old client", mcp.V2025_06_18, true, true, "pay.example has expired"},
		{"no model", mcp.V2026_07_28, false, false, "does not support sampling with tools"},
		{"no model for an old client", mcp.V2025_06_18, true, false, "does not support sampling with tools"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := mcpclient.Server{Name: "detective", Command: os.Args[0], Env: map[string]*string{"BE_THE_SERVER": new("1")}, Protocol: string(tt.protocol)}
			if tt.own {
				ollama := httptest.NewServer(llmtest.NewServer(detective()...))
				defer ollama.Close()
				server.Args, server.Env["OLLAMA_HOST"] = []string{"-model", "scripted"}, &ollama.URL
			}
			var opts mcpclient.Options
			if tt.client {
				opts.AskOptions = mcpclient.AskOptions{Sampler: asModel(llmtest.Script(detective()...)), SampleFreely: true, SamplingTools: true}
			}
			c, err := mcpclient.Dial(t.Context(), server, &opts)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var got string
			res, err := c.CallTool(t.Context(), "explain", json.RawMessage(`{"question":"Why do all payments fail?"}`), nil)
			if err != nil {
				got = err.Error()
			} else {
				got = res.Content.Text()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

// What the tools of the model find in the log.
func TestTools(t *testing.T) {
	got, err := count(t.Context(), countIn{Level: "ERROR"})
	if err != nil || len(got) != 2 || got[0] != (countOut{"checkout", 2}) {
		t.Errorf("count: got %v and %v", got, err)
	}
	if lines, err := search(t.Context(), searchIn{Text: "CERTIFICATE"}); err != nil || strings.Count(lines, "\n") != 1 {
		t.Errorf("search: got %q and %v", lines, err)
	}
	if _, err := search(t.Context(), searchIn{Text: "PayPal"}); err == nil {
		t.Error("search of what is not there: got no error")
	}
}

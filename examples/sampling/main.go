// Sampling is an MCP server that needs a model: it finds out from a log why something
// has failed. It uses the model of the client that calls it, or one of its own.
//
//	troupe run --mcp "go run ./examples/sampling" "Why do all payments fail?"
//	troupe mcp call --mcp "go run ./examples/sampling -model qwen3:8b" explain '{"question":"Why do all payments fail?"}'
//
// Where Ollama is not on this machine the server has to know: hosts do not hand their
// environment on, so OLLAMA_HOST belongs into its definition (troupe mcp add -e).
//
// The tools that the model has for it are two Go functions. They stay in this process: the
// client sees them in the questions to its model, and cannot call them.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

func main() {
	log.SetFlags(0) // stderr: stdout belongs to the protocol
	name := flag.String("model", "", "an Ollama `model` for clients that have none to offer")
	flag.Parse()
	var model llm.Model
	if *name != "" {
		model = ollama.New(*name, nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := newServer(model)
	if err == nil {
		err = s.ServeStdio(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func newServer(model llm.Model) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "detective", Version: "1.0.0"}, &mcpserver.Options{
		Model: sampling.NewModel(model, &sampling.Limits{MaxTokens: 2000, TokensPerHour: 200_000}), // what strangers may use of it
	})
	if err != nil {
		return nil, err
	}
	return s, mcpserver.AddTool(s, &mcp.Tool{Name: "explain", Description: "Finds out from the shop's log why something has failed."}, explain)
}

type explainIn struct {
	Question string `json:"question" jsonschema:"what is to be explained"`
}

func explain(ctx context.Context, req *mcpserver.ToolRequest, in explainIn) (string, error) {
	r, err := sampling.Loop(ctx, req, "explain", &mcp.CreateMessageParams{
		SystemPrompt: "You explain failures of a web shop from its log. Look before you answer, and cite the lines.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(in.Question)}}},
		MaxTokens:    1000,
	}, tools, &sampling.Options{MaxTurns: 6})
	if err != nil {
		return "", err // no model, a person who says no, a cancel: the caller reads which
	}
	return r.Text(), nil
}

// tools are what the model may call; they may be used by many calls at once.
var tools = []*sampling.Tool{
	sampling.Func(&mcp.Tool{Name: "search_log", Description: "Returns the lines of the log that contain a text."}, search),
	sampling.Func(&mcp.Tool{Name: "count_by_service", Description: "Counts the lines of a level for each service."}, count),
}

type searchIn struct {
	Text string `json:"text" jsonschema:"in any case"`
}

func search(_ context.Context, in searchIn) (string, error) {
	var found []string
	for _, line := range shop {
		if strings.Contains(strings.ToLower(line), strings.ToLower(in.Text)) {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no line contains %q", in.Text) // the model reads it and tries another text
	}
	return strings.Join(found, "\n"), nil
}

type countIn struct {
	Level string `json:"level" jsonschema:"INFO, WARN or ERROR"`
}

type countOut struct {
	Service string `json:"service"`
	Lines   int    `json:"lines"`
}

func count(_ context.Context, in countIn) ([]countOut, error) {
	lines := make(map[string]int)
	for _, line := range shop {
		if f := strings.Fields(line); f[1] == in.Level {
			lines[f[2]]++
		}
	}
	var out []countOut
	for service, n := range lines {
		out = append(out, countOut{service, n})
	}
	slices.SortFunc(out, func(a, b countOut) int { return cmp.Or(b.Lines-a.Lines, cmp.Compare(a.Service, b.Service)) })
	return out, nil
}

// shop is the log: time, level, service, text.
var shop = []string{
	"09:58 INFO web 200 GET /cart",
	"10:01 WARN bank the certificate of pay.example expires in 0 days",
	"10:02 ERROR bank dialling pay.example: certificate has expired",
	"10:02 ERROR checkout order 1841: the bank does not answer",
	"10:03 ERROR checkout order 1842: the bank does not answer",
	"10:03 INFO web 502 POST /checkout",
}

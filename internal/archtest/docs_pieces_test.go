package archtest

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
	"github.com/troupe-dev/troupe/store"
)

// What follows is what the documentation shows, with what is around it there in words.
// It is compiled, and not run.

// README.md, In Go.
var _ = func(rt *agent.Runtime, researcher *agent.Agent) (*agent.Agent, error) {
	a, err := rt.Agent("reader", &agent.Config{
		Instructions: "Answer only from files you have read.",
		Limits:       agent.Limits{Tokens: 50_000, Cost: llm.Unit / 5, ToolCalls: 20, OnLimit: agent.LimitWrapUp},
		Tools:        []agent.Tool{researcher.AsTool("research", "Looks something up.")},
	})
	return a, err
}

type BookIn struct {
	People int `json:"people"`
}

type Guest struct {
	Name string `json:"name"`
}

func book(in BookIn, who Guest) (string, error) {
	return fmt.Sprintf("%s, %d people", who.Name, in.People), nil
}

// README.md, A server.
var _ = func() {
	s, err := mcpserver.New(mcp.Implementation{Name: "booking", Version: "1.0.0"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "book_table", Description: "Books a table."},
		func(ctx context.Context, req *mcpserver.ToolRequest, in BookIn) (string, error) {
			who, err := mcpserver.Elicit[Guest](ctx, req, "guest", "For whom, and when?") // asks the person at the client
			if err != nil {
				return "", err // declined: the model reads that
			}
			return book(in, who)
		})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/mcp", s.Handler()) // every revision, both eras, one URL; s.ServeStdio(ctx) does the same on a pipe
}

// docs/guides/sampling.md, As a host.
var _ = func(ctx context.Context, model llm.Model, servers []mcpclient.Server) (*agent.Runtime, error) {
	rt, err := agent.Open(ctx, &agent.Options{
		Model:   model,
		Servers: servers,
		Sampling: &agent.Sampling{
			Servers: map[string]agent.SamplingPolicy{
				"poet": {Mode: mcpclient.SamplingAllow, Requests: 10, MaxTokens: 200},
			},
		},
	})
	return rt, err
}

// docs/guides/sampling.md, Whose model.
var _ = &mcpserver.Options{
	Model: sampling.NewModel(ollama.New("qwen3:8b", nil), &sampling.Limits{
		Concurrency: 8, PerPrincipal: 2, // turns at once: of all, of one client
		MaxTokens:     2000,    // output of one turn
		TokensPerHour: 200_000, // of one client; beyond it sampling.ErrBudget
	}),
}

// docs/guides/authorization.md, In Go.
var _ = func(ctx context.Context, s store.Store, keys [][]byte, ask auth.AuthorizeFunc) error {
	authorizer, err := auth.New(auth.Options{Vault: s, Keys: keys, Authorize: ask})
	if err != nil {
		return err
	}
	defer authorizer.Close()
	client, err := mcpclient.Dial(ctx, mcpclient.Server{Name: "notion", URL: "https://mcp.notion.com/mcp"}, &mcpclient.Options{Authorizer: authorizer})
	_ = client
	return err
}

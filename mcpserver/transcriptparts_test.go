package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type transcriptIn struct {
	Text string `json:"text" jsonschema:"what to answer"`
}

type guest struct {
	Name string `json:"name" jsonschema:"who comes"`
}

// parts are what the servers of transcripts have.
var parts = map[string]func(*mcpserver.Server) error{
	"echo": func(s *mcpserver.Server) error {
		return mcpserver.AddFunc(s, &mcp.Tool{Name: "echo", Description: "Answers the text."}, func(_ context.Context, in transcriptIn) (string, error) {
			return in.Text, nil
		})
	},
	"fail": func(s *mcpserver.Server) error {
		return mcpserver.AddFunc(s, &mcp.Tool{Name: "fail"}, func(context.Context, struct{}) (string, error) {
			return "", errors.New("the printer is on fire")
		})
	},
	"refuse": func(s *mcpserver.Server) error {
		return mcpserver.AddFunc(s, &mcp.Tool{Name: "refuse"}, func(context.Context, struct{}) (string, error) {
			return "", mcp.Errorf(1234, "not for you")
		})
	},
	"steps": func(s *mcpserver.Server) error {
		return mcpserver.AddTool(s, &mcp.Tool{Name: "steps"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			req.Progress(1, 2, "half")
			req.Progress(2, 2, "all")
			return "done", nil
		})
	},
	"log": func(s *mcpserver.Server) error {
		return mcpserver.AddTool(s, &mcp.Tool{Name: "log"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			req.Log(mcp.LogDebug, "printer", "warming up")
			req.Log(mcp.LogWarning, "printer", "no paper")
			return "logged", nil
		})
	},
	"block": func(s *mcpserver.Server) error {
		return mcpserver.AddFunc(s, &mcp.Tool{Name: "block"}, func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
	},
	"ask": func(s *mcpserver.Server) error {
		return mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			who, err := mcpserver.Elicit[guest](ctx, req, "guest", "Who comes?")
			return "Welcome, " + who.Name, err
		})
	},
	"visit": func(s *mcpserver.Server) error {
		return errors.Join(
			mcpserver.AddTool(s, &mcp.Tool{Name: "visit"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				return "signed in", req.ElicitURL(ctx, "page", "Please sign in.", "https://example.com/?id="+mcpserver.ElicitationID)
			}),
			mcpserver.AddFunc(s, &mcp.Tool{Name: "visited"}, func(_ context.Context, in transcriptIn) (string, error) {
				return "thank you", s.CompleteElicitation(in.Text, "")
			}),
		)
	},
	"sample": func(s *mcpserver.Server) error {
		return mcpserver.AddTool(s, &mcp.Tool{Name: "sample"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			res, err := req.Sample(ctx, "capital", &mcp.CreateMessageParams{
				Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("The capital of France?")}}},
				MaxTokens: 10,
			})
			if err != nil {
				return "", err
			}
			return res.Content.Text(), nil
		})
	},
	"roots": func(s *mcpserver.Server) error {
		return mcpserver.AddTool(s, &mcp.Tool{Name: "roots"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			roots, err := req.Roots(ctx, "roots")
			return fmt.Sprint(len(roots), " roots"), err
		})
	},
	"slow": func(s *mcpserver.Server) error {
		return mcpserver.AddFunc(s, &mcp.Tool{Name: "slow", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}}, func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "slept", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
	},
	"resource": func(s *mcpserver.Server) error {
		return errors.Join(
			mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "note://today", Name: "today"}, func(context.Context) (string, error) {
				return "Buy milk.", nil
			}),
			mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "note://{day}", Name: "day"}, func(_ context.Context, vars mcpserver.Vars) (string, error) {
				return fmt.Sprint("Nothing on ", vars["day"], "."), nil
			}),
			mcpserver.CompleteTemplate(s, "note://{day}", "day", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
				return mcpserver.Rank(req.Value(), "monday", "tuesday"), nil
			}),
		)
	},
	"prompt": func(s *mcpserver.Server) error {
		return mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "greet"}, func(_ context.Context, in guest) (string, error) {
			return "Greet " + in.Name + ".", nil
		})
	},
}

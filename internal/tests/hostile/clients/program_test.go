package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// program is a server with the tools of these tests.
type program struct {
	server   *mcpserver.Server
	smuggled atomic.Int64 // runs of what only a lenient decoder would call
	greeted  atomic.Int64 // runs of greet that have got their answer
	blocked  atomic.Int64 // handlers that wait now
	begun    chan string  // what a blocking handler was called with
	ended    chan string  // the same, and its context has ended
	most     atomic.Uint64
	base     atomic.Uint64
}

type (
	textIn struct {
		Text string `json:"text,omitempty"`
		N    int    `json:"n,omitempty"`
	}
	nameForm struct {
		Name string `json:"name"`
	}
)

func newProgram(opts *mcpserver.Options) (*program, error) {
	if opts.Tasks == nil {
		opts.Tasks = &mcpserver.TaskOptions{}
	}
	s, err := mcpserver.New(mcp.Implementation{Name: "target", Version: "1"}, opts)
	if err != nil {
		return nil, err
	}
	p := &program{server: s, begun: make(chan string, 10_000), ended: make(chan string, 10_000)}
	return p, errors.Join(p.addTools(), p.addAsking(), p.addPanics(), p.addOthers())
}

// handler serves all transports of HTTP.
func (p *program) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", p.server.Handler())
	mux.Handle("/sse", p.server.SSEHandler())
	return mux
}

func (p *program) addTools() error {
	return errors.Join(
		mcpserver.AddFunc(p.server, &mcp.Tool{Name: "echo"}, func(_ context.Context, in textIn) (string, error) { return in.Text, nil }),
		mcpserver.AddFunc(p.server, &mcp.Tool{Name: "smuggled"}, func(context.Context, json.RawMessage) (string, error) {
			p.smuggled.Add(1)
			return "SMUGGLED", nil
		}),
		mcpserver.AddFunc(p.server, &mcp.Tool{Name: "count"}, func(context.Context, struct{}) (string, error) {
			return fmt.Sprint(p.smuggled.Load()), nil
		}),
		mcpserver.AddTool(p.server, &mcp.Tool{Name: "marker"}, func(_ context.Context, req *mcpserver.ToolRequest, in textIn) (string, error) {
			req.Progress(1, 2, in.Text)
			req.Log(mcp.LogInfo, "marker", in.Text)
			return in.Text, nil
		}),
		mcpserver.AddTool(p.server, &mcp.Tool{Name: "block"}, func(ctx context.Context, _ *mcpserver.ToolRequest, in textIn) (string, error) {
			return "", p.block(ctx, in.Text)
		}),
		mcpserver.AddTool(p.server, &mcp.Tool{Name: "talk"}, func(ctx context.Context, req *mcpserver.ToolRequest, in textIn) (string, error) {
			long := strings.Repeat("x", 60_000)
			for i := range in.N {
				if ctx.Err() != nil {
					break
				}
				req.Progress(float64(i+1), 0, long)
				req.Log(mcp.LogError, "", long)
			}
			return strings.Repeat("y", in.N), nil
		}),
		mcpserver.AddTool(p.server, &mcp.Tool{Name: "work", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			func(ctx context.Context, _ *mcpserver.ToolRequest, in textIn) (string, error) {
				return "", p.block(ctx, in.Text)
			}),
		mcpserver.AddFunc(p.server, &mcp.Tool{Name: "peak"}, func(context.Context, struct{}) (string, error) { return fmt.Sprint(p.peak()), nil }),
	)
}

// block waits for the end of its context.
func (p *program) block(ctx context.Context, text string) error {
	text = strings.Clone(text[:min(len(text), 100)])
	p.blocked.Add(1)
	note(p.begun, text)
	<-ctx.Done()
	p.blocked.Add(-1) // before others hear of the end
	note(p.ended, text)
	return context.Cause(ctx)
}

func note(to chan string, text string) {
	select {
	case to <- text:
	default:
	}
}

func (p *program) addAsking() error {
	return errors.Join(
		mcpserver.AddTool(p.server, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ textIn) (string, error) {
			who, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			if err != nil {
				return "", err
			}
			p.greeted.Add(1)
			return "Hello, " + who.Name, nil
		}),
		mcpserver.AddTool(p.server, &mcp.Tool{Name: "twice"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ textIn) (string, error) {
			one, err := mcpserver.Elicit[nameForm](ctx, req, "one", "Who?")
			if err != nil {
				return "", err
			}
			two, err := mcpserver.Elicit[nameForm](ctx, req, "two", "And who else?")
			if err != nil {
				return "", err
			}
			return one.Name + " and " + two.Name, nil
		}),
	)
}

// secret must never reach a client.
const secret = "hunter2"

func (p *program) addPanics() error {
	s := p.server
	prompt := &mcp.Prompt{Name: "panic", Arguments: []mcp.PromptArgument{{Name: "a"}}}
	return errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "panic_func"}, func(context.Context, struct{}) (string, error) { panic(secret) }),
		mcpserver.AddTool(s, &mcp.Tool{Name: "panic"}, func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) { panic(secret) }),
		mcpserver.AddTool(s, &mcp.Tool{Name: "panic_late"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			panic(fmt.Sprint(secret, err))
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "panic_once"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			return mcpserver.Once(ctx, req, "once", func(context.Context) (string, error) { panic(secret) })
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "panic_task", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) { panic(secret) }),
		mcpserver.AddTool(s, &mcp.Tool{Name: "panic_nil"}, func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
			var none *program
			return "", none.block(ctx, "")
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "goexit"}, func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) {
			runtime.Goexit()
			return "", nil
		}),
		mcpserver.AddResource(s, &mcp.Resource{Name: "panic", URI: "test://panic"}, func(context.Context, *mcpserver.ResourceRequest) (string, error) { panic(secret) }),
		mcpserver.AddResourceFunc(s, &mcp.Resource{Name: "panic func", URI: "test://panicfunc"}, func(context.Context) (string, error) { panic(secret) }),
		mcpserver.AddTemplate(s, &mcp.ResourceTemplate{Name: "panic", URITemplate: "panic://{a}"}, func(context.Context, *mcpserver.ResourceRequest, mcpserver.Vars) (string, error) {
			panic(secret)
		}),
		mcpserver.AddPrompt(s, prompt, func(context.Context, *mcpserver.PromptRequest, map[string]string) (string, error) { panic(secret) }),
		mcpserver.CompletePrompt(s, "panic", "a", func(context.Context, *mcpserver.CompleteRequest) ([]string, error) { panic(secret) }),
		mcpserver.CompleteTemplate(s, "panic://{a}", "a", func(context.Context, *mcpserver.CompleteRequest) ([]string, error) { panic(secret) }),
	)
}

func (p *program) addOthers() error {
	return errors.Join(
		mcpserver.AddResourceFunc(p.server, &mcp.Resource{Name: "one", URI: "test://one"}, func(context.Context) (string, error) { return "one", nil }),
		mcpserver.AddTemplateFunc(p.server, &mcp.ResourceTemplate{Name: "any", URITemplate: "any://{+a}/{b*}{?c*}"}, func(_ context.Context, v mcpserver.Vars) (string, error) {
			return v.Get("a"), nil
		}),
		mcpserver.AddPromptFunc(p.server, &mcp.Prompt{Name: "hello", Arguments: []mcp.PromptArgument{{Name: "who"}}}, func(_ context.Context, in map[string]string) (string, error) {
			return "Hello, " + in["who"], nil
		}),
		mcpserver.CompletePrompt(p.server, "hello", "who", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
			return mcpserver.Rank(req.Value(), "Ada", "Bob"), nil
		}),
	)
}

// heap is what the heap holds, garbage included.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

// sample watches the heap for as long as the process lives.
func (p *program) sample() {
	for range time.Tick(time.Millisecond) {
		if h := heap(); h > p.most.Load() {
			p.most.Store(h)
		}
	}
}

// peak returns how far the heap has grown since it was asked before.
func (p *program) peak() int64 {
	grown := int64(p.most.Load()) - int64(p.base.Load())
	runtime.GC()
	debug.FreeOSMemory()
	p.base.Store(heap())
	p.most.Store(p.base.Load())
	return grown
}

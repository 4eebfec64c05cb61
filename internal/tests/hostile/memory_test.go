package hostile

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// maxPerPeer is what no single peer may add to a host (ROB-3).
const maxPerPeer = 64 << 20

// full is a little less than the largest message that is read.
const full = 16<<20 - 4096

// fill repeats a part until the text has the size of a message.
func fill(before, part, after string) string {
	n := (full - len(before) - len(after)) / len(part)
	return before + strings.TrimSuffix(strings.Repeat(part, n), ",") + after
}

// fillNumbered is fill with a different number in each part.
func fillNumbered(before, part, after string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; b.Len() < full-len(after)-len(part)-10; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, part, i)
	}
	b.WriteString(after)
	return b.String()
}

// bomb is one attack on memory. Say is what the server does when it is called, or asked
// for the list; do is what the client does, by default a call.
type bomb struct {
	name   string
	method string // that it is the answer to; empty is tools/call
	legacy bool   // needs requests of the server
	open   bool   // needs a way on which a call can have more than its answer
	say    func(c *turn)
	do     func(ctx context.Context, c *mcpclient.Client)
}

func answerWith(text func() string) func(*turn) {
	return func(c *turn) { c.result(text()) }
}

var bombs = makeBombs()

func makeBombs() []bomb {
	all := []bomb{
		{name: "one text", say: answerWith(func() string { return fill(`{"content":[{"type":"text","text":"`, `x`, `"}]}`) })},
		{name: "escapes", say: answerWith(func() string { return fill(`{"content":[{"type":"text","text":"`, `\u0001`, `"}]}`) })},
		{name: "texts", say: answerWith(func() string { return fill(`{"content":[`, `{"type":"text","text":""},`, `]}`) })},
		{name: "empty blocks", say: answerWith(func() string { return fill(`{"content":[`, `{},`, `]}`) })},
		{name: "unknown blocks", say: answerWith(func() string { return fill(`{"content":[`, `{"type":"x"},`, `]}`) })},
		{name: "links", say: answerWith(func() string { return fill(`{"content":[`, `{"type":"resource_link","uri":"a:","name":"x"},`, `]}`) })},
		{name: "structured object", say: answerWith(func() string { return fillNumbered(`{"content":[],"structuredContent":{`, `"%x":0`, `}}`) })},
		{name: "structured arrays", say: answerWith(func() string { return fill(`{"content":[],"structuredContent":{"a":[`, `[],`, `]}}`) })},
		{name: "meta", say: answerWith(func() string { return fillNumbered(`{"content":[],"_meta":{`, `"%x":0`, `}}`) })},
		{name: "members", say: answerWith(func() string { return fillNumbered(`{"content":[],`, `"%x":0`, `}`) })},
		{name: "envelope", say: func(c *turn) {
			c.say(fillNumbered(`{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]},`, `"%x":0`, `}`))
		}},
		{name: "error", say: func(c *turn) {
			c.say(fill(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":1,"message":"x","data":[`, `{},`, `]}}`))
		}},
		{name: "supported versions", say: func(c *turn) {
			c.say(fill(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32022,"message":"x","data":{"requested":"x","supported":[`, `"",`, `]}}}`))
		}},
		{name: "URLs", say: func(c *turn) {
			c.say(fill(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32042,"message":"x","data":{"elicitations":[`, `{},`, `]}}}`))
		}},
		{name: "inputs", say: answerWith(func() string {
			return fillNumbered(`{"resultType":"input_required","inputRequests":{`, `"%x":{"method":"roots/list"}`, `}}`)
		})},
		{name: "form of inputs", say: answerWith(func() string {
			return fillNumbered(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"x","requestedSchema":{"type":"object","properties":{`, `"%x":{"type":"string"}`, `}}}}}}`)
		})},
		{name: "state", say: answerWith(func() string { return fill(`{"resultType":"input_required","requestState":"`, `x`, `"}`) })},
		{name: "batch of pings", open: true, say: func(c *turn) {
			c.say(fill(`[`, `{"jsonrpc":"2.0","id":1,"method":"ping"},`, `]`))
			c.textResult("done")
		}},
		{name: "batch of nothing", open: true, say: func(c *turn) { c.say(fill(`[`, `{},`, `]`)); c.textResult("done") }},
		{name: "batch of numbers", open: true, say: func(c *turn) { c.say(fill(`[`, `1,`, `]`)); c.textResult("done") }},
		{name: "depth", open: true, say: func(c *turn) { c.say(strings.Repeat("[", full)); c.textResult("done") }},
		{name: "pings", open: true, say: func(c *turn) {
			for i := range 50_000 {
				c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
			}
			c.textResult("done")
		}},
		{name: "progress", open: true, say: func(c *turn) {
			message := strings.Repeat("x", 64<<10)
			for i := range 1000 {
				c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%%ID%%,"progress":%d,"message":"%s"}}`, i, message))
			}
			c.textResult("done")
		}, do: func(ctx context.Context, c *mcpclient.Client) {
			_, _ = c.CallTool(ctx, "x", nil, &mcpclient.CallOptions{Progress: func(mcpclient.Progress) { time.Sleep(time.Millisecond) }})
		}},
		{name: "line without end", open: true, say: func(c *turn) { c.write(strings.Repeat("x", 200<<20)) }},
		{name: "log messages", open: true, say: func(c *turn) {
			for range 40 {
				c.write(fill(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"`, `x`, `"}}`))
			}
			c.textResult("done")
		}},
		{name: "changes", open: true, say: func(c *turn) {
			for i := range 20_000 {
				c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:%d"}}`, i))
			}
			c.textResult("done")
		}},
		{name: "completed pages", open: true, legacy: true, say: func(c *turn) {
			for i := range 20 {
				c.write(fill(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"%d`, i), `x`, `"}}`))
			}
			c.textResult("done")
		}},
		{name: "forms", open: true, legacy: true, say: func(c *turn) {
			for i := range 100 {
				c.write(fill(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}},"message":"`, i), `x`, `"}}`))
			}
			c.textResult("done")
		}},
		{name: "samplings", open: true, legacy: true, say: func(c *turn) {
			for i := range 20 {
				c.write(fill(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"sampling/createMessage","params":{"maxTokens":10,"messages":[`, i), `{"role":"user","content":{"type":"text","text":""}},`, `]}}`))
			}
			c.textResult("done")
		}},
		{name: "samplings of nothing", open: true, legacy: true, say: func(c *turn) {
			c.write(fill(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":10,"messages":[`, `{},`, `]}}`))
			c.write(fill(`{"jsonrpc":"2.0","id":"r","method":"sampling/createMessage","params":{"maxTokens":10,"messages":[{"role":"user","content":[`, `{},`, `]}]}}`))
			c.textResult("done")
		}},
		{name: "wide form", open: true, legacy: true, say: func(c *turn) {
			c.write(fillNumbered(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{`, `"%x":{"type":"string"}`, `}}}}`))
			c.textResult("done")
		}},
		{name: "enum of a form", open: true, legacy: true, say: func(c *turn) {
			c.write(fillNumbered(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":[`, `"%x"`, `]}}}}}`))
			c.textResult("done")
		}},
	}
	list := func(name, method string, say func(*turn), do func(context.Context, *mcpclient.Client) (int, error)) {
		all = append(all, bomb{name: name, method: method, say: say, do: func(ctx context.Context, c *mcpclient.Client) { _, _ = do(ctx, c) }})
	}
	tools := func(ctx context.Context, c *mcpclient.Client) (int, error) {
		l, err := c.ListTools(ctx)
		return len(l), err
	}
	list("empty tools", mcp.MethodListTools, answerWith(func() string { return fill(`{"tools":[`, `{},`, `]}`) }), tools)
	list("small tools", mcp.MethodListTools, answerWith(func() string {
		return fillNumbered(`{"tools":[`, `{"name":"%x","inputSchema":{"type":"object"}}`, `]}`)
	}), tools)
	list("pages of tools", mcp.MethodListTools, func() func(*turn) {
		var n atomic.Int64
		return func(c *turn) {
			i := n.Add(1)
			c.result(fillNumbered(fmt.Sprintf(`{"nextCursor":"%d","tools":[`, i), fmt.Sprintf(`{"name":"%d-%%x","inputSchema":{"type":"object"}}`, i), `]}`))
		}
	}(), tools)
	list("empty pages", mcp.MethodListTools, func() func(*turn) {
		var n atomic.Int64
		return func(c *turn) { c.result(fmt.Sprintf(`{"nextCursor":"%d","tools":[]}`, n.Add(1))) }
	}(), tools)
	list("one cursor", mcp.MethodListTools, answerWith(func() string { return fill(`{"tools":[],"nextCursor":"`, `x`, `"}`) }), tools)
	list("icons", mcp.MethodListTools, answerWith(func() string {
		return fill(`{"tools":[{"name":"a","inputSchema":{"type":"object"},"icons":[`, `{},`, `]}]}`)
	}), tools)
	list("wide schema", mcp.MethodListTools, answerWith(func() string {
		return fillNumbered(`{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{`, `"%x":{}`, `}}}]}`)
	}), tools)
	list("empty resources", mcp.MethodListResources, answerWith(func() string { return fill(`{"resources":[`, `{},`, `]}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		l, err := c.ListResources(ctx)
		return len(l), err
	})
	list("small resources", mcp.MethodListResources, answerWith(func() string { return fillNumbered(`{"resources":[`, `{"uri":"a:%x","name":"x"}`, `]}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		l, err := c.ListResources(ctx)
		return len(l), err
	})
	list("empty prompts", mcp.MethodListPrompts, answerWith(func() string { return fill(`{"prompts":[`, `{},`, `]}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		l, err := c.ListPrompts(ctx)
		return len(l), err
	})
	list("arguments of a prompt", mcp.MethodListPrompts, answerWith(func() string { return fill(`{"prompts":[{"name":"a","arguments":[`, `{},`, `]}]}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		l, err := c.ListPrompts(ctx)
		return len(l), err
	})
	list("contents", mcp.MethodReadResource, answerWith(func() string { return fill(`{"contents":[`, `{},`, `]}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		_, err := c.ReadResource(ctx, "a:", nil)
		return 0, err
	})
	list("messages of a prompt", mcp.MethodGetPrompt, answerWith(func() string { return fill(`{"messages":[`, `{},`, `]}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		_, err := c.GetPrompt(ctx, "a", nil, nil)
		return 0, err
	})
	list("completions", mcp.MethodComplete, answerWith(func() string { return fill(`{"completion":{"values":[`, `"",`, `]}}`) }), func(ctx context.Context, c *mcpclient.Client) (int, error) {
		_, err := c.Complete(ctx, &mcp.CompleteParams{Ref: mcp.CompletionRef{Type: "ref/prompt", Name: "a"}})
		return 0, err
	})
	return all
}

func init() {
	register("bombs", func() script {
		var mu sync.Mutex
		armed := -1
		return func(c *turn) bool {
			mu.Lock()
			defer mu.Unlock()
			if c.m.Method == mcp.MethodCallTool && strings.HasPrefix(c.name(), "arm ") {
				armed = slices.IndexFunc(bombs, func(b bomb) bool { return "arm "+b.name == c.name() })
				return false
			}
			if armed < 0 || c.m.Kind != mcp.KindRequest {
				return false
			}
			method := bombs[armed].method
			if method == "" {
				method = mcp.MethodCallTool
			}
			if c.m.Method != method || c.name() == "good" {
				return false
			}
			bombs[armed].say(c)
			return true
		}
	})
}

// bombTime bounds a call that the server never answers; what it sends by then counts.
const bombTime = 15 * time.Second

// SECA-9, ROB-3: whatever one server sends, it adds less than 64 MiB, and its next
// answer comes. Not parallel: the memory is that of the process.
func TestMemory(t *testing.T) {
	if mcptest.Race {
		t.Skip("the race detector's memory is not ours")
	}
	only := os.Getenv("HOSTILE_BOMB")
	var worst int64
	for n, w := range ways {
		if w.name == "in process" {
			continue // its memory is that of the server
		}
		s := openRemote(t, w, "bombs")
		for i := range bombs {
			b := &bombs[i]
			if b.open && w.whole || b.legacy && w.version.Era() == mcp.EraModern || only != "" && only != b.name {
				continue
			}
			if (i+n)%6 != 0 && only == "" && w.name != "stdio" {
				continue // it is the same reading on every way: a sixth of them will do
			}
			t.Run(w.name+"/"+b.name, func(t *testing.T) {
				begin := time.Now()
				grown := mcptest.Peak(maxPerPeer, func() {
					c := dial(t, s, &mcpclient.Options{AskOptions: mcpclient.AskOptions{
						Human: asleep{}, Sampler: sampler, Roots: []mcp.Root{}, SamplingTools: true,
					}, OnLog: func(string, mcp.LogParams) {}})
					if _, err := text(t, c, "arm "+b.name, mcptest.Patience); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), bombTime)
					defer cancel()
					if b.do != nil {
						b.do(ctx, c)
					} else {
						_, _ = c.CallTool(ctx, "x", nil, nil)
					}
					mcptest.Eventually(t, answerBound, "answered", func() bool { // at once, unless it has filled its own queue
						got, err := text(t, c, "good", mcptest.Patience)
						return err == nil && got == "good"
					})
					closeSoon(t, c.Close)
				})
				took := time.Since(begin)
				worst = max(worst, grown)
				if grown > maxPerPeer {
					t.Errorf("it added %d MiB in %v, want %d at most", grown>>20, took, maxPerPeer>>20)
				} else if testing.Verbose() {
					t.Logf("%d MiB, %v", grown>>20, took)
				}
			})
		}
	}
	t.Logf("the worst added %d MiB", worst>>20)
}

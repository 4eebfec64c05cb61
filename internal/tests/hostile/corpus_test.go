package hostile

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// smuggled is a text that no call may return: it stands where only a lenient decoder
// looks.
const smuggled = `{"resultType":"complete","content":[{"type":"text","text":"SMUGGLED"}]}`

// corpus is what a bad server says in the middle of a call. %ID% is the id of the call.
var corpus = sync.OnceValue(makeCorpus)

func makeCorpus() []string {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	deepObject := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	long := strings.Repeat("x", 1<<20)
	all := []string{
		// No JSON, or no message.
		`garbage`, `{`, `[`, `]`, `}`, `null`, `true`, `123`, `"x"`, `{}`, `[]`, `[[]]`, `[1,2]`, `[null]`, `{"jsonrpc":"2.0"}`, "\x00", "\xef\xbb\xbf{}",
		`{"jsonrpc":"2.0","id":%ID%,"result":` + smuggled + `} {}`, `{"jsonrpc":"2.0","id":%ID%,"result":` + smuggled,
		`{"jsonrpc":"2.0","id":%ID%,"result":` + smuggled + `}}`, "{\"jsonrpc\":\"2.0\",\"id\":%ID%,\"x\":\"\xff\",\"result\":" + smuggled + "}",
		`{"jsonrpc":"2.0","id":%ID%,"x":"\ud800","result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":%ID%,"x":NaN,"result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":` + smuggled + `,}`, `{'jsonrpc':'2.0','id':%ID%,'result':{}}`, `{"jsonrpc":"2.0","id":%ID%,/**/"result":` + smuggled + `}`,
		// SECA-4: keys.
		`{"jsonrpc":"2.0","id":%ID%,"id":%ID%,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":77,"id":%ID%,"result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":%ID%,"Result":` + smuggled + `}`, `{"jsonrpc":"2.0","ID":%ID%,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","Id":%ID%,"RESULT":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":%ID%,"re` + "\u017f" + `ult":` + smuggled + `}`, `{"jsonrpc":"2.0","id":%ID%,"result\u0000":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":{},"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":%ID%,"result":` + smuggled + `,"r\u0065sult":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":{"content":[],"Content":[{"type":"text","text":"SMUGGLED"}]}}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"x","Text":"SMUGGLED"}]}}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"x","text":"SMUGGLED"}]}}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":{"content":[],"content":[{"type":"text","text":"SMUGGLED"}]}}`,
		`{"jsonrpc":"2.0","id":%ID%,"method":"ping","Method":"sampling/createMessage"}`, `{"jsonrpc":"2.0","id":%ID%,"method":"ping","result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","method":"notifications/message","Params":{},"params":{"level":"info","Level":"x","data":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","level":"info","data":1}}`,
		// Envelopes.
		`{"jsonrpc":"1.0","id":%ID%,"result":` + smuggled + `}`, `{"id":%ID%,"result":` + smuggled + `}`, `{"jsonrpc":2.0,"id":%ID%,"result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":` + smuggled + `,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":%ID%}`,
		`{"jsonrpc":"2.0","id":%ID%,"result":null}`, `{"jsonrpc":"2.0","id":%ID%,"result":"SMUGGLED"}`, `{"jsonrpc":"2.0","id":%ID%,"result":[]}`,
		`{"jsonrpc":"2.0","id":%ID%,"error":"x"}`, `{"jsonrpc":"2.0","id":%ID%,"error":null}`, `{"jsonrpc":"2.0","id":%ID%,"error":{}}`,
		`{"jsonrpc":"2.0","id":%ID%,"error":{"code":"x","message":5}}`, `{"jsonrpc":"2.0","id":%ID%,"error":{"code":1e999,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":%ID%,"error":{"code":1.5,"message":"x"}}`, `{"jsonrpc":"2.0","id":%ID%,"error":{"code":99999999999999999999,"message":"x","data":` + deep + `}}`,
		`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32042,"message":"x","data":{"elicitations":5}}}`,
		`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32042,"message":"x","data":{"elicitations":[null,{}]}}}`,
		`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32020,"message":"x","data":[]}}`, `{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32021,"message":"x","data":7}}`,
		// ROB-4: ids.
		`{"jsonrpc":"2.0","id":%ID%.0,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":%ID%e0,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":"%ID%","result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":null,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":{"a":%ID%},"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":[%ID%],"result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":-%ID%,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":0%ID%,"result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":+%ID%,"result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":"` + long + `","result":` + smuggled + `}`, `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 100_000) + `,"result":` + smuggled + `}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}`,
		// Depth.
		deep, deepObject, `{"jsonrpc":"2.0","id":%ID%,"result":{"content":` + deep + `}}`, `{"jsonrpc":"2.0","id":%ID%,"result":{"content":[],"_meta":` + deepObject + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + deep + `}}`,
		// Notifications.
		`{"jsonrpc":"2.0","method":"","params":{}}`, `{"jsonrpc":"2.0","method":5}`, `{"jsonrpc":"2.0","method":null}`, `{"jsonrpc":"2.0","method":"` + long + `"}`,
		`{"jsonrpc":"2.0","method":"notifications/unknown","params":{"a":1}}`,
	}
	for _, method := range []string{
		"notifications/progress", "notifications/cancelled", "notifications/message", "notifications/tools/list_changed", "notifications/resources/updated",
		"notifications/elicitation/complete", "notifications/tasks/status", "notifications/subscriptions/acknowledged", "notifications/roots/list_changed", "notifications/initialized",
	} {
		for _, params := range []string{
			`null`, `[]`, `5`, `"x"`, `{}`, `{"progressToken":{},"progress":"x"}`, `{"progressToken":%ID%,"progress":1e999,"total":-1}`, `{"progressToken":%ID%,"progress":null}`,
			`{"requestId":%ID%}`, `{"requestId":null,"reason":5}`, `{"level":5}`, `{"uri":5}`, `{"uri":"` + long + `"}`, `{"elicitationId":{}}`, `{"taskId":5,"status":"x"}`, `{"_meta":5}`, `{"notifications":5}`,
		} {
			all = append(all, `{"jsonrpc":"2.0","method":"`+method+`","params":`+params+`}`)
		}
	}
	for _, method := range []string{
		"ping", "roots/list", "sampling/createMessage", "elicitation/create", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tools/call", "initialize", "server/discover", "nothing",
	} {
		for _, rest := range []string{
			`"id":1`, `"id":%ID%,"params":null`, `"id":%ID%,"params":[]`, `"id":"a","params":5`, `"id":null,"params":{}`, `"id":1.5,"params":{}`, `"id":{},"params":{}`,
			`"id":"` + long + `"`, `"id":2,"params":{"_meta":5}`, `"id":3,"params":{"task":5}`, `"id":4,"params":{"task":{"ttl":-1},"messages":[{"role":"x","content":[5]}],"maxTokens":1e999}`,
			`"id":5,"params":{"mode":"url","url":5}`, `"id":6,"params":{"mode":"form","message":"x","requestedSchema":5}`, `"id":7,"params":{"mode":"form","message":"x","requestedSchema":{"type":"object","properties":{"a":{"$ref":"#"}}}}`,
			`"id":8,"params":{"taskId":5}`, `"id":9,"params":{"taskId":"nothing"}`,
		} {
			all = append(all, `{"jsonrpc":"2.0","method":"`+method+`",`+rest+`}`)
		}
	}
	for _, result := range []string{
		`{}`, `{"content":null}`, `{"content":5}`, `{"content":"x"}`, `{"content":{}}`, `{"content":[null]}`, `{"content":[1]}`, `{"content":[[]]}`, `{"content":[{}]}`, `{"content":[{"type":5}]}`,
		`{"content":[{"type":"image"}]}`, `{"content":[{"type":"image","data":"!!","mimeType":5}]}`, `{"content":[{"type":"resource"}]}`, `{"content":[{"type":"resource","resource":{"uri":5}}]}`,
		`{"content":[{"type":"wat"}]}`, `{"content":[],"structuredContent":5}`, `{"content":[],"structuredContent":{"a":1e999}}`, `{"content":[],"isError":"x"}`, `{"content":[],"_meta":5}`,
		`{"content":[],"resultType":5}`, `{"content":[],"resultType":"wat"}`, `{"resultType":"input_required"}`, `{"resultType":"input_required","inputRequests":5}`,
		`{"resultType":"input_required","inputRequests":{"a":5}}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"nothing","params":{}}}}`,
		`{"resultType":"input_required","requestState":5}`, `{"resultType":"task","task":5}`, `{"resultType":"task","taskId":{}}`, `{"task":5}`, `{"task":{"taskId":5}}`,
		`{"task":{"taskId":"x","status":"wat","createdAt":5,"ttl":"x"}}`, `{"content":[],"ttlMs":-1,"cacheScope":5}`, `{"content":[],"ttlMs":1e999}`,
	} {
		all = append(all, `{"jsonrpc":"2.0","id":%ID%,"result":`+result+`}`)
	}
	// 2025-03-26 has batches; a batch of anything must do no harm elsewhere, either.
	all = append(all,
		`[{"jsonrpc":"2.0","id":%ID%,"result":{"content":[]}},garbage]`, `[{"jsonrpc":"2.0","method":"notifications/progress","params":[]},{},5,null]`,
		`[`+strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 10_000), ",")+`]`)
	return all
}

func init() {
	register("corpus", func() script {
		return func(c *turn) bool {
			if c.m.Method != mcp.MethodCallTool {
				return false
			}
			if i, err := strconv.Atoi(c.name()); err == nil {
				c.say(corpus()[i])
			}
			return false // and then the answer
		}
	})
}

// answerBound is what the answer to the next good message may take (ROB-2).
const answerBound = mcptest.Patience

// SECA-4, SECA-8, ROB-2, ROB-4: whatever a server says in the middle of a call, the call
// ends, it does not return what only a lenient decoder would find, and the next good
// answer comes in time.
func TestCorpus(t *testing.T) {
	everyWay(t, "corpus", func(t *testing.T, _ way, s mcpclient.Server) {
		s.IdleTimeout = mcptest.Patience
		c := dial(t, s, &mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: decliner{}, Sampler: sampler, SampleFreely: true, Roots: []mcp.Root{}}, OnLog: func(string, mcp.LogParams) {}})
		for i, bad := range corpus() {
			if mcptest.Race && i%3 != 0 {
				continue
			}
			begin := time.Now()
			got, err := text(t, c, strconv.Itoa(i), mcptest.Patience)
			took := time.Since(begin)
			if strings.Contains(got, "SMUGGLED") {
				t.Errorf("%.120q: the call returned what was smuggled in", bad)
			}
			if took > answerBound {
				t.Errorf("%.120q: the call took %v (%v), want %v at most", bad, took, err, answerBound)
			}
			begin = time.Now()
			if got, err := text(t, c, "good", mcptest.Patience); err != nil || got != "good" || time.Since(begin) > answerBound {
				t.Fatalf("after %.120q (which gave %v): the next call got %q, %v after %v", bad, err, got, err, time.Since(begin))
			}
		}
		if g := c.Status().Generation; g != 1 {
			t.Errorf("%d connections were made, want one", g)
		}
	})
}

// SECA-6: many clients with the same ids, and each has its own answers and progress.
func TestManyClientsOfOneServer(t *testing.T) {
	everyStream(t, "marker", func(t *testing.T, w way, s mcpclient.Server) {
		clients := 50
		if w.name == "stdio" {
			clients = 5 // each is a process
		}
		sys := mcptest.NewSystem(t)
		for i := range clients {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				marker := fmt.Sprint("client", i)
				own := s
				own.Headers = map[string]string{"X-Client": marker}
				c := dial(t, own, &mcpclient.Options{System: sys})
				for n := range 10 {
					want := fmt.Sprint(marker, " ", n)
					var told []string
					res, err := c.CallTool(t.Context(), want, nil, &mcpclient.CallOptions{Progress: func(p mcpclient.Progress) { told = append(told, p.Message) }})
					if err != nil || res.Content.Text() != want {
						t.Fatalf("%s: got %+v, %v", want, res, err)
					}
					for _, message := range told {
						if message != want {
							t.Errorf("%s: got the progress of %q", want, message)
						}
					}
				}
			})
		}
	})
}

func init() {
	register("marker", func() script {
		return func(c *turn) bool {
			if c.m.Method == mcp.MethodCallTool {
				if raw, err := mcp.Marshal(c.m.Progress); err == nil && !c.m.Progress.IsZero() {
					c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, raw, c.name()))
				}
			}
			return false
		}
	})
}

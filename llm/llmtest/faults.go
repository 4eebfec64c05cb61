package llmtest

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// FaultCase is one way in which a server fails.
type FaultCase struct {
	Name string
	Turn Turn
	// Err is what the error of a client wraps; nil where there is no word for it.
	Err error
	// Retryable says whether the same request may do better later.
	Retryable bool
	// Begun says that events of the turn come before the fault.
	Begun bool
	// RetryAfter is how long the server asks to wait. Zero means it does not.
	RetryAfter time.Duration
	// Only names the one API that has this fault, "openai" or "ollama"; empty for both.
	Only string
}

// Faults returns the ways in which servers fail, for tests that hold that none of them
// ends in success, in a hang, or in the wrong kind of error. Dates in it are relative
// to now.
func Faults(now time.Time) []FaultCase {
	return append(append(streamFaults(), statusFaults(now)...), answerFaults()...)
}

// FaultsOf returns those that an API has, "openai" or "ollama".
func FaultsOf(api string, now time.Time) []FaultCase {
	var of []FaultCase
	for _, f := range Faults(now) {
		if f.Only == "" || f.Only == api {
			of = append(of, f)
		}
	}
	return of
}

// streamFaults are those of a stream that has begun, or seems to.
func streamFaults() []FaultCase {
	turn := Join(Say("one ", "two "), Call("f", `{"a":1}`))
	over := func(f Fault, after int) Turn { return turn.Over(Wire{Fault: f, After: after}) }
	return []FaultCase{
		{Name: "reset before the first event", Turn: over(Cut, 0), Err: llm.ErrStreamCut, Retryable: true},
		{Name: "reset after an event", Turn: over(Cut, 2), Err: llm.ErrStreamCut, Retryable: true, Begun: true},
		{Name: "reset within a call", Turn: over(Cut, 5), Err: llm.ErrStreamCut, Retryable: true, Begun: true, Only: "openai"},
		{Name: "reset of a compressed stream", Turn: turn.Over(Wire{Fault: Cut, After: 2, Gzip: true}), Err: llm.ErrStreamCut, Retryable: true, Begun: true},
		{Name: "an empty stream", Turn: over(Stop, 0), Err: llm.ErrStreamCut, Retryable: true},
		{Name: "a clean end too early", Turn: over(Stop, 2), Err: llm.ErrStreamCut, Retryable: true, Begun: true},
		{Name: "an end within a document", Turn: over(HalfLine, 2), Err: llm.ErrStreamCut, Retryable: true, Begun: true},
		{Name: "silence after an event", Turn: over(Silence, 2), Err: llm.ErrIdle, Retryable: true, Begun: true},
		{Name: "silence from the start", Turn: over(Silence, 0), Err: llm.ErrIdle, Retryable: true, Only: "openai"},
		{Name: "no headers", Turn: turn.Over(Wire{HeaderDelay: time.Hour}), Err: llm.ErrIdle, Retryable: true, Only: "openai"},
		{Name: "a document that is not JSON", Turn: over(Garbage, 2), Err: llm.ErrBadResponse, Retryable: true, Begun: true},
		{Name: "a document of 5 MiB", Turn: over(HugeLine, 2), Err: llm.ErrTooLarge, Begun: true},
		{Name: "an error first, an object", Turn: over(ErrorObject, 0), Retryable: true},
		{Name: "an error, an object", Turn: over(ErrorObject, 2), Retryable: true, Begun: true},
		{Name: "an error, a text", Turn: over(ErrorString, 2), Retryable: true, Begun: true},
		{Name: "an error with blanks", Turn: over(ErrorBlanks, 2), Retryable: true, Begun: true},
		{Name: "an error behind comments", Turn: turn.Over(Wire{Fault: ErrorObject, After: 2, KeepAlives: 200}), Retryable: true, Begun: true, Only: "openai"},
		{Name: "an error without data:", Turn: over(ErrorBare, 2), Retryable: true, Begun: true, Only: "openai"},
		{Name: "a finish reason error", Turn: over(ErrorFinish, 2), Err: llm.ErrBadResponse, Retryable: true, Begun: true, Only: "openai"},
		{Name: "the killed runner of Ollama, seen over /v1", Only: "openai", Turn: turn.Over(Wire{Fault: Orphaned, After: 2}), Err: llm.ErrStreamCut, Retryable: true, Begun: true},
		{Name: "a last line that is not done", Turn: over(NotDone, 2), Err: llm.ErrStreamCut, Retryable: true, Begun: true, Only: "ollama"},
		{Name: "only loaded", Turn: over(OnlyLoaded, 0), Err: llm.ErrBadResponse, Retryable: true, Only: "ollama"},
		{Name: "only unloaded", Turn: Say().Over(Wire{Finish: "unload"}), Err: llm.ErrBadResponse, Retryable: true, Only: "ollama"},
	}
}

// statusFaults are answers with a status that says so.
func statusFaults(now time.Time) []FaultCase {
	after := func(c FaultCase, d time.Duration) FaultCase {
		c.RetryAfter = d
		return c
	}
	of := func(name string, status int, body string, err error, retryable bool, headers ...string) FaultCase {
		return FaultCase{Name: name, Turn: Reply(status, body, headers...), Err: err, Retryable: retryable}
	}
	const slow = `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`
	const html = "<html>\n<head><title>502 Bad Gateway</title></head></html>"
	page := []string{"Content-Type", "text/html"}
	google := func(code int, status, message, details string) string { // as Gemini writes it, with line ends
		return fmt.Sprintf("[{\n  \"error\": {\n    \"code\": %d,\n    \"message\": %q,\n    \"status\": %q,\n    \"details\": [%s]\n  }\n}\n]\n", code, message, status, details)
	}
	const wait = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}`
	date := now.Add(90 * time.Second).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	return []FaultCase{
		of("400, the context", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, llm.ErrContextLength, false),
		of("400, the context, llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":2048}}`, llm.ErrContextLength, false),
		of("400, the context, Ollama", 400, `{"error":"the input length exceeds the context length"}`, llm.ErrContextLength, false),
		of("400, the context, Gemini", 400, google(400, "INVALID_ARGUMENT", "The input token count (1500000) exceeds the maximum number of tokens allowed (1048576).", ""), llm.ErrContextLength, false),
		of("400, the context, with a byte order mark", 400, "\uFEFF"+`{"error":{"message":"Your input exceeds the context window of this model."}}`, llm.ErrContextLength, false),
		of("400, the key, Gemini", 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", ""), llm.ErrAuth, false),
		of("400, the filter", 400, `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter"}}`, llm.ErrUnsupported, false),
		of("400, a text", 400, `{"error":"invalid message content type: <nil>"}`, llm.ErrInvalidRequest, false),
		of("400, empty", 400, ``, llm.ErrInvalidRequest, false),
		of("401", 401, `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}`, llm.ErrAuth, false),
		of("402", 402, `{"error":{"message":"Insufficient credits","code":402}}`, llm.ErrQuota, false),
		of("403, empty", 403, ``, llm.ErrAuth, false),
		of("404", 404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`, llm.ErrNotFound, false),
		of("404, Ollama", 404, `{"error":"model 'nope' not found"}`, llm.ErrNotFound, false),
		of("408, empty", 408, ``, nil, true),
		of("409, empty", 409, ``, nil, true),
		of("413, HTML", 413, "<html>413 Request Entity Too Large</html>", llm.ErrInvalidRequest, false, page...),
		of("422", 422, `{"detail":[{"loc":["body"],"msg":"extra fields"}]}`, llm.ErrInvalidRequest, false),
		of("425, empty", 425, ``, nil, true),
		after(of("429, seconds", 429, slow, llm.ErrRateLimit, true, "Retry-After", "7", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1m30s"), 7*time.Second),
		after(of("429, a fraction", 429, slow, llm.ErrRateLimit, true, "Retry-After", "0.25"), 250*time.Millisecond),
		after(of("429, milliseconds", 429, slow, llm.ErrRateLimit, true, "Retry-After-Ms", "1234", "Retry-After", "2"), 1234*time.Millisecond),
		after(of("429, a date", 429, slow, llm.ErrRateLimit, true, "Retry-After", date), 90*time.Second),
		after(of("429, Gemini", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan.", wait), llm.ErrRateLimit, true), 37*time.Second),
		after(of("429, Gemini and a header", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", wait), llm.ErrRateLimit, true, "Retry-After", "5"), 5*time.Second),
		of("429, the quota, Gemini", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan.", ""), llm.ErrQuota, false),
		of("429, empty", 429, ``, llm.ErrRateLimit, true),
		of("429, the quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, llm.ErrQuota, false),
		of("500, empty", 500, ``, nil, true),
		of("500, the runner", 500, `{"error":"model runner has unexpectedly stopped"}`, nil, true),
		of("500, an option", 500, `{"error":"option \"num_predict\" must be of type integer"}`, llm.ErrInvalidRequest, false),
		of("500, an image", 500, `{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`, llm.ErrUnsupported, false),
		of("502, HTML", 502, html, nil, true, page...),
		of("502, empty", 502, ``, nil, true),
		after(of("503, Ollama", 503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, nil, true, "Retry-After", "3"), 3*time.Second),
		of("503, Gemini", 503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ""), nil, true),
		of("503, empty", 503, ``, nil, true),
		of("504, HTML", 504, html, nil, true, page...),
		of("529", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, nil, true),
		of("529, empty", 529, ``, nil, true),
		of("a redirect", 307, ``, llm.ErrBadResponse, false, "Location", "http://elsewhere.test/v1/chat/completions"),
	}
}

// answerFaults are answers whose status says that all is well.
func answerFaults() []FaultCase {
	turn := Say("fine")
	return []FaultCase{
		{Name: "HTML with status 200", Turn: turn.Over(Wire{ContentType: "text/html; charset=utf-8"}), Err: llm.ErrBadResponse},
		{Name: "an error with status 200", Turn: Reply(200, `{"error":{"message":"nope"}}`), Retryable: true},
		{Name: "an error of Gemini's with status 200", Turn: Reply(200, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}]`),
			Err: llm.ErrRateLimit, Retryable: true, RetryAfter: 1500 * time.Millisecond},
		{Name: "an empty object", Turn: Reply(200, `{}`), Err: llm.ErrStreamCut, Retryable: true},
		{Name: "an empty body", Turn: Reply(200, ``), Err: nil, Retryable: true},
		{Name: "no gzip although it says so", Turn: Reply(200, `{}`, "Content-Encoding", "gzip"), Err: llm.ErrStreamCut, Retryable: true},
		{Name: "a call without a name", Only: "openai", Err: llm.ErrBadCall, Retryable: true, Turn: Reply(200, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n", "Content-Type", "text/event-stream")},
		{Name: "a call without a name, Ollama", Only: "ollama", Err: llm.ErrBadCall, Retryable: true, Turn: Reply(200, `{"message":{"tool_calls":[{"function":{"name":"","arguments":{}}}]},"done":true}`+"\n", "Content-Type", "application/x-ndjson")},
	}
}

// Package llm is how Troupe talks to language models.
//
// A [Model] runs one turn: it takes a [Request] (system text, messages of MCP
// content, tools) and yields [Event] values as they come, text first to last, the
// [Finish] at the end. [Generate] collects a turn into a [Response].
//
//	var m llm.Model = ollama.New("qwen3:8b", nil) // or openai.New(…), or llmtest.Script(…)
//	m = llm.Retry(m, nil)                         // waits and asks again on 429, 5xx, a cut line; a runtime does so itself
//	resp, err := llm.Generate(ctx, m, &llm.Request{Messages: []llm.Message{llm.User("Hello")}})
//
// # What is promised
//
//   - A turn has succeeded exactly if [Finish] was yielded. A stream that ends
//     early, falls silent, or carries an error ends in an error, never in a short
//     answer that looks whole.
//   - A [ToolCall] is complete: its arguments are one JSON object.
//   - What a provider attaches to an answer and wants back with it, such as a signature, goes
//     back to it unread and unchanged, and to no other: see [ProviderState].
//   - Leaving the loop over a stream, or ending its context, ends the request.
//   - Models may be used by many goroutines at once. They start none of their own.
//   - Errors are [*Error] values; keys never appear in them. What a server sends is
//     bounded on every path: 4 MiB for one event, one answer or all arguments.
//
// Tests of code that uses a Model take llm/llmtest: a scripted Model, and an HTTP
// server that speaks like OpenAI and like Ollama and fails in every way they do.
package llm

// Package openai is a [llm.Model] of any server that speaks OpenAI's APIs, chat completions or the Responses API:
// OpenAI itself, Azure, OpenRouter, vLLM, llama.cpp, LM Studio, Ollama's /v1 and many more.
//
//	m := openai.New("gpt-5-mini", &openai.Options{APIKey: key})
//	local := openai.New("qwen3", &openai.Options{BaseURL: "http://127.0.0.1:8080"})
//
// Requests are built and sent by go-openai, but for the model's name, messages and tools, which are
// encoded here. Answers are read here, since its reader takes a stream that was cut for one
// that has ended, loses errors inside a stream and gives up on long runs of keep-alive
// comments. A turn has completed when a finish reason was seen, not when the stream ends.
//
// What servers attach to their answers goes back to them: reasoning_content, reasoning, reasoning_details, extra_content, and the
// reasoning items of a response, encrypted, as nothing is stored there; of the client's own model only. For an answer that has none of
// it, as of another model, a server gets what it documents for that.
//
// What a model takes is known by its server's address, by its generation if it is called gpt-MAJOR.MINOR, and from what its
// server has refused: the API that it has its tools by, the efforts, a temperature, the limit of the output, fields of
// state. A refused request is made again without, and for that model no other one is made with it.
//
// What servers lack is made up for here: stop sequences beyond the four that OpenAI takes
// cut the text on its way, a required tool call that does not come is asked for once more
// with a grammar, and impossible numbers of tokens are estimated. A schema that
// the strict mode takes is sent as a strict one. Audio is an error.
//
// A [Client] may be used by many goroutines at once, and starts none. Its tests, and
// yours, run against the server of llm/llmtest.
package openai

// Package sampling turns MCP's sampling/createMessage into turns of a model, and turns
// of a model into sampling/createMessage. It is pure: it makes no request.
//
// A host that answers servers with a model of its own goes one way,
//
//	req, err := sampling.Request(params) // what the server asks, for any llm.Model
//	resp, err := llm.Generate(ctx, model, req)
//	res, err := sampling.Result(params, resp)
//
// and a server that uses its client's model goes the other:
//
//	params, err := sampling.Params(req) // what to ask the client
//	resp, err := sampling.Response(req, res)
//
// # What is promised
//
//   - What Request accepts passes [llm.Request.Validate]; what it does not is an
//     [*mcp.Error] that the server may be told.
//   - Blocks of tools go as they came, their _meta included. Only ids that are
//     used twice in a history, and names that no provider takes, are replaced; answers
//     have the server's own names.
//   - A model's reasoning is never part of what a server gets.
//   - Nothing that was passed in is changed; the results share blocks with it.
//
// All functions may be called by many goroutines at once.
package sampling

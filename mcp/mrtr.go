package mcp

import (
	"encoding/json"
	"fmt"
)

// InputRequest is a question of a server inside of an input_required result
// : a request without jsonrpc and id.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitzero"` // nil only for roots/list

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// NewInputRequest encodes params, which may be nil for roots/list.
func NewInputRequest(method string, params any) (InputRequest, error) {
	r := InputRequest{Method: method}
	if params == nil {
		return r, nil
	}
	raw, err := Marshal(params)
	if err != nil {
		return InputRequest{}, fmt.Errorf("writing the params of %s: %w", method, err)
	}
	r.Params = raw
	return r, nil
}

// Decode returns the params as *[ElicitParams], *[CreateMessageParams] or nil
// for roots/list. Another method, or params that break the rules of theirs, are
// an error.
func (r *InputRequest) Decode() (any, error) {
	switch r.Method {
	case MethodElicit:
		p := new(ElicitParams)
		if err := Unmarshal(r.Params, p); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Method, err)
		}
		return p, nil
	case MethodCreateMessage:
		p := new(CreateMessageParams)
		if err := Unmarshal(r.Params, p); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Method, err)
		}
		if err := p.CheckToolBalance(); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Method, err)
		}
		return p, nil
	case MethodListRoots:
		return nil, nil
	}
	return nil, fmt.Errorf("%q is no input request", r.Method)
}

// InputRequests are the questions of one round, by keys the server chose.
type InputRequests map[string]InputRequest

// InputResponses are the answers: the bare results, without resultType, by the
// keys of the questions.
type InputResponses map[string]json.RawMessage

// InputRequiredResult says that the server needs input before it can answer.
type InputRequiredResult struct {
	InputRequests InputRequests `json:"inputRequests,omitzero"`
	RequestState  *string       `json:"requestState,omitzero"` // opaque; echoed byte for byte
	Meta          Meta          `json:"_meta,omitzero"`
	ResultType    string        `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that there are requests or a state, and that each
// request is of a method that may be one.
func (r *InputRequiredResult) Validate() error {
	for key, q := range r.InputRequests {
		if !Latest.InputMethod(q.Method) {
			return fmt.Errorf("input_required result: %q asks for %q", key, q.Method)
		}
	}
	return required("input_required result", "inputRequests or requestState",
		r.InputRequests != nil || r.RequestState != nil)
}

package sampler

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// metaState is the member of _meta in which a server is given what a provider has attached to a call that the model makes, sealed:
// a server that drives the loop sends the history back (SAMP-24, SAMP-25). It can neither read nor make it, and no other server, and no
// other call, can use it. It is worth nothing to another process.
const metaState = "dev.troupe/state"

// ofCall stands for the ID of the call in sealed state: servers may change IDs.
const ofCall = "."

// maxSealed bounds what is opened: state with its members, as base64.
const maxSealed = 2 * llm.MaxState

// newSealing returns AES-256-GCM with a random key, and a random nonce before each value.
func newSealing() (cipher.AEAD, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealState puts what a provider has attached to an answer into its calls.
func (s *Service) sealState(server string, resp *llm.Response, res *mcp.CreateMessageResult) {
	calls := resp.Calls()
	if len(resp.State) == 0 || len(calls) == 0 {
		return
	}
	n := 0
	for _, c := range res.Content {
		call, ok := c.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		var mine []llm.ProviderState
		for _, st := range resp.State {
			switch st.Call {
			case calls[n].ID:
				st.Call = ofCall
			case "": // of the whole answer
				if n > 0 {
					continue
				}
			default:
				continue
			}
			mine = append(mine, st)
		}
		n++
		if plain, err := jsonx.Marshal(mine); err == nil && len(mine) > 0 {
			call.Meta = maps.Clone(call.Meta)
			if call.Meta == nil {
				call.Meta = make(mcp.Meta)
			}
			_ = call.Meta.Set(metaState, base64.StdEncoding.EncodeToString(s.sealing.Seal(nil, nil, plain, boundTo(server, call)))) // a string can be encoded
		}
	}
}

// openState gives a conversation back what was sealed to the server for its calls. What does not open is left out.
func (s *Service) openState(server string, p *mcp.CreateMessageParams, turn *llm.Request) {
	for i, m := range p.Messages {
		for j, c := range m.Content {
			call, ok := c.(*mcp.ToolUseContent)
			if !ok || call.Meta == nil {
				continue
			}
			var text string
			if ok, err := call.Meta.Get(metaState, &text); !ok || err != nil || len(text) > maxSealed {
				continue
			}
			sealed, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				continue
			}
			plain, err := s.sealing.Open(nil, nil, sealed, boundTo(server, call))
			if err != nil {
				continue
			}
			var mine []llm.ProviderState
			if jsonx.Unmarshal(plain, &mine) != nil {
				continue
			}
			to := &turn.Messages[i]
			for _, st := range mine {
				if st.Call == ofCall {
					st.Call = to.Content[j].(*mcp.ToolUseContent).ID
				}
				if !slices.ContainsFunc(to.State, func(o llm.ProviderState) bool { return o.Kind == st.Kind && o.Call == st.Call }) { // a server may repeat a block
					to.State = append(to.State, st)
				}
			}
		}
	}
}

// boundTo is what sealed state belongs to: the call of that server, with these arguments.
func boundTo(server string, call *mcp.ToolUseContent) []byte {
	bound, _ := jsonx.Marshal([]string{server, call.Name}) // texts can be encoded
	if args, err := jsonx.Canonical(call.Input); err == nil {
		bound = append(bound, args...)
	}
	return bound
}

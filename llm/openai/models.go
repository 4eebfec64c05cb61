package openai

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// lookup bounds the question for the models.
const lookup = 10 * time.Second

// Models lists the names of the models that the server has, in its order. It
// waits at most 10 s. Azure's older API has no list: the error wraps [llm.ErrUnsupported].
func (c *Client) Models(ctx context.Context) ([]string, error) {
	origin := rest.Origin{Provider: c.opts.Provider, Secrets: c.secrets}
	if c.opts.APIVersion != "" {
		return nil, origin.New(llm.ErrUnsupported, "this API does not list its deployments")
	}
	call := rest.NewCall(ctx, origin, rest.Limits{FirstByte: lookup, Idle: lookup})
	defer call.Close()
	call.Within(lookup)
	req, err := http.NewRequestWithContext(call.Context(), http.MethodGet, c.opts.BaseURL+"/models", nil)
	if err != nil { // its text holds the URL, which may hold credentials
		return nil, origin.New(llm.ErrInvalidRequest, "the base URL is not valid")
	}
	maps.Copy(req.Header, c.opts.Header)
	if c.opts.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.APIKey)
	}
	if _, err := call.Do(c.opts.HTTPClient, req); err != nil {
		return nil, err
	}
	data, err := call.ReadAll()
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := jsonx.Unmarshal(data, &list); err != nil {
		return nil, origin.New(llm.ErrBadResponse, "models: %v", err)
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

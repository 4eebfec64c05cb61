package ollama

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

const defaultPort = "11434"

// lookup bounds the small questions to a server, which it answers from memory.
const lookup = 10 * time.Second

// Server is an Ollama server: what it is, and which models it has.
type Server struct {
	opts    Options
	url     *url.URL
	err     error    // why url is nil
	secrets []string // what no error shows
	thinks  thinks
}

// NewServer returns the server of opts. It sends nothing yet.
func NewServer(opts *Options) *Server {
	s := &Server{opts: opts.withDefaults()}
	s.url, s.err = parseHost(cmp.Or(s.opts.Host, os.Getenv("OLLAMA_HOST")))
	s.secrets = rest.Secrets(s.opts.APIKey, s.opts.Header, s.url)
	return s
}

// Model returns a client of one of its models.
func (s *Server) Model(name string) *Client { return &Client{model: name, server: s} }

// String returns scheme, host and port of the server, without credentials.
func (s *Server) String() string {
	if s.url == nil {
		return "an invalid host"
	}
	return s.url.Scheme + "://" + s.url.Host
}

// GoString returns what String does: %#v shows no key.
func (s *Server) GoString() string { return s.String() }

// parseHost reads a host as Ollama's own tools do: scheme, port and path may be missing.
func parseHost(host string) (*url.URL, error) {
	host = strings.TrimSpace(host)
	port := defaultPort
	switch {
	case host == "":
		host = "http://127.0.0.1"
	case strings.HasPrefix(host, "https://"):
		port = "443"
	case strings.HasPrefix(host, "http://"):
		port = "80"
	case strings.Contains(host, "://"):
		return nil, errors.New("the host of Ollama must be http or https")
	case net.ParseIP(host) != nil && strings.Contains(host, ":"):
		host = "http://[" + host + "]"
	case strings.HasPrefix(host, ":"): // every address, to a server
		host = "http://127.0.0.1" + host
	default:
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("the host of Ollama is not valid") // err would show credentials
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u, nil
}

func (s *Server) origin(model string) rest.Origin {
	return rest.Origin{Provider: s.opts.Provider, Model: model, Secrets: s.secrets}
}

// Ping asks for the server's version, and so whether there is one. It waits at most 10 s.
func (s *Server) Ping(ctx context.Context) (version string, err error) {
	var v struct {
		Version string `json:"version"`
	}
	if err := s.get(ctx, http.MethodGet, "api/version", "", nil, &v); err != nil {
		return "", err
	}
	if v.Version == "" {
		return "", s.origin("").New(llm.ErrBadResponse, "what answers at %s is not Ollama", s)
	}
	return v.Version, nil
}

// ModelInfo is a model that the server has on its disk.
type ModelInfo struct {
	Name          string // such as "qwen3:8b"
	Family        string // such as "qwen3"
	ParameterSize string // such as "8.2B"
	Size          int64  // bytes
	Modified      time.Time
}

// Models lists the models of the server, the most recently changed first. It waits at
// most 10 s.
func (s *Server) Models(ctx context.Context) ([]ModelInfo, error) {
	var list struct {
		Models []struct {
			Name       string `json:"name"`
			Size       int64  `json:"size"`
			ModifiedAt string `json:"modified_at"`
			Details    struct {
				Family        string `json:"family"`
				ParameterSize string `json:"parameter_size"`
			} `json:"details"`
		} `json:"models"`
	}
	if err := s.get(ctx, http.MethodGet, "api/tags", "", nil, &list); err != nil {
		return nil, err
	}
	models := make([]ModelInfo, 0, len(list.Models))
	for _, m := range list.Models {
		modified, _ := time.Parse(time.RFC3339Nano, m.ModifiedAt) // zero sorts last
		models = append(models, ModelInfo{
			Name: m.Name, Family: m.Details.Family, ParameterSize: m.Details.ParameterSize,
			Size: m.Size, Modified: modified,
		})
	}
	slices.SortStableFunc(models, func(a, b ModelInfo) int { return b.Modified.Compare(a.Modified) })
	return models, nil
}

// Capabilities is what a model can do.
type Capabilities struct {
	Tools, Vision, Thinking bool
	// Completion is false for models that only embed, and where Embedding is false too,
	// for servers that do not say what a model can do.
	Completion, Embedding bool
	// ContextLength is what the model was made for, in tokens; a server usually grants
	// less. Zero means that the server did not say.
	ContextLength int
}

// Capabilities asks what a model can do. It waits at most 10 s.
func (s *Server) Capabilities(ctx context.Context, model string) (Capabilities, error) {
	var show struct {
		Capabilities []string               `json:"capabilities"`
		ModelInfo    map[string]jsonx.Value `json:"model_info"`
	}
	body := struct {
		Model string `json:"model"`
	}{model}
	if err := s.get(ctx, http.MethodPost, "api/show", model, body, &show); err != nil {
		return Capabilities{}, err
	}
	c := Capabilities{
		Tools:      slices.Contains(show.Capabilities, "tools"),
		Vision:     slices.Contains(show.Capabilities, "vision"),
		Thinking:   slices.Contains(show.Capabilities, "thinking"),
		Completion: slices.Contains(show.Capabilities, "completion"),
		Embedding:  slices.Contains(show.Capabilities, "embedding"),
	}
	for key, value := range show.ModelInfo {
		if strings.HasSuffix(key, ".context_length") { // "llama.context_length" and so on
			_ = jsonx.Unmarshal(value, &c.ContextLength) // stays zero if it is no number
		}
	}
	return c, nil
}

// maxAsked bounds the models that DefaultModel asks about.
const maxAsked = 16

// DefaultModel picks a model for an agent where the user named none: the most recently
// changed one that takes tools. It returns an error that wraps [llm.ErrNotFound] if there
// is none.
func (s *Server) DefaultModel(ctx context.Context) (string, error) {
	models, err := s.Models(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range models[:min(len(models), maxAsked)] {
		if c, err := s.Capabilities(ctx, m.Name); err == nil && c.Tools {
			return m.Name, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("the Ollama server at %s has %d models and none that takes tools: %w", s, len(models), llm.ErrNotFound)
}

// get makes a small request and decodes the answer into out.
func (s *Server) get(ctx context.Context, method, path, model string, body, out any) error {
	call := rest.NewCall(ctx, s.origin(model), rest.Limits{FirstByte: lookup, Idle: lookup})
	defer call.Close()
	call.Within(lookup)
	if err := s.send(call, method, path, body); err != nil {
		return err
	}
	data, err := call.ReadAll()
	if err != nil {
		return err
	}
	if err := jsonx.Unmarshal(data, out); err != nil {
		return s.origin(model).New(llm.ErrBadResponse, "%s: %v", path, err)
	}
	return nil
}

package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The types of providers.
const (
	TypeOpenAI = "openai"
	TypeOllama = "ollama"
)

// builtIn are the providers that are there without a file, and what the environment says
// of each.
var builtIn = map[string]struct{ kind, url, urlEnv, keyEnv string }{
	"ollama":    {kind: TypeOllama, urlEnv: "OLLAMA_HOST", keyEnv: "OLLAMA_API_KEY"},
	"openai":    {kind: TypeOpenAI, urlEnv: "OPENAI_BASE_URL", keyEnv: "OPENAI_API_KEY"},
	"anthropic": {kind: TypeOpenAI, url: "https://api.anthropic.com/v1", keyEnv: "ANTHROPIC_API_KEY"},
	"gemini":    {kind: TypeOpenAI, url: "https://generativelanguage.googleapis.com/v1beta/openai", keyEnv: "GEMINI_API_KEY"},
}

// IsBuiltIn reports whether there is a provider of the name without a file.
func IsBuiltIn(name string) bool {
	_, ok := builtIn[name]
	return ok
}

// usual reports whether there is a server that a provider of the name has without a
// base_url: that of a built-in one, as long as a file does not change what it speaks.
func usual(name, kind string) bool {
	b, ok := builtIn[name]
	return ok && b.kind == kind
}

// providerNames are the names of all providers, sorted.
func providerNames(own map[string]Provider) []string {
	names := slices.Collect(maps.Keys(builtIn))
	for name := range own {
		if !IsBuiltIn(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Server is a provider ready to be asked.
type Server struct {
	Provider
	Name    string
	BaseURL string
	APIKey  Key
	Headers map[string]Key // their values may be secrets too
	// Configured says that a file or the environment speaks of it; Ollama is asked anyway.
	Configured bool
}

// Header returns the headers to send.
func (s *Server) Header() http.Header {
	h := make(http.Header, len(s.Headers))
	for name, value := range s.Headers {
		h.Set(name, value.Reveal())
	}
	return h
}

// provider reads one entry of models.providers.
func (d *decoder) provider(key, n *yaml.Node) Provider {
	p := Provider{Type: TypeOpenAI, dir: filepath.Dir(d.file)}
	if b, ok := builtIn[key.Value]; ok {
		p.Type = b.kind
	}
	if !providerName.fits(key.Value) {
		d.fail(key, "a provider's name has letters, digits, dots, dashes and underscores, at most 64")
	}
	keys := 0
	one := func(read func(*yaml.Node)) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if keys++; keys > 1 {
				d.fail(n, "a second source of the key: one of api_key, api_key_env and api_key_file is enough")
			}
			read(n)
		}
	}
	d.object(n, fields{
		"type":             d.oneOf(&p.Type, TypeOpenAI, TypeOllama),
		"base_url":         d.baseURL(&p),
		"api_key":          one(d.apiKey(&p)),
		"api_key_env":      one(d.variable(&p.keyEnv)),
		"api_key_file":     one(d.text(&p.keyFile)),
		"headers":          d.headers(&p),
		"api":              d.oneOf(&p.API, "auto", "chat", "responses"),
		"max_tokens_field": d.oneOf(&p.MaxTokensField, "max_tokens", "max_completion_tokens"),
		"api_version":      d.text(&p.APIVersion),
		"concurrency":      d.count(&p.Concurrency),
		"per_minute":       d.count(&p.PerMinute),
		"keep_alive":       d.keepAlive(&p.KeepAlive),
		"context":          d.count(&p.Context),
	})
	if n.Kind != yaml.MappingNode {
		return p
	}
	switch {
	case p.Type == TypeOllama && (p.API != "" || p.MaxTokensField != "" || p.APIVersion != ""):
		d.fail(n, "api, api_version and max_tokens_field are for the type openai")
	case p.Type == TypeOpenAI && (p.KeepAlive != 0 || p.Context != 0):
		d.fail(n, "keep_alive and context are for the type ollama; what a model has is said in models.cards")
	case p.baseURL == "" && !usual(key.Value, p.Type):
		d.fail(n, "the base_url is missing")
	case p.baseURL == "" && p.APIVersion != "":
		d.fail(n, "api_version needs a base_url, that of the resource")
	}
	return p
}

func (d *decoder) baseURL(p *Provider) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.text(&p.baseURL)(n)
		if plain := variables.ReplaceAllString(p.baseURL, "x"); strings.Contains(plain, "@") {
			d.fail(n, "credentials do not belong into a URL: use api_key_env or headers")
		}
	}
}

// apiKey reads a key that is somewhere else. The text is shown in no error.
func (d *decoder) apiKey(p *Provider) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d.text(&p.apiKey)(n)
		literal := variables.ReplaceAllString(p.apiKey, "$3")
		if len(literal) >= minKey || strings.Contains(literal, "$") {
			d.fail(n, "keys do not belong into this file: write ${NAME} for a variable of the environment, or use api_key_env or api_key_file")
			p.apiKey = ""
		}
	}
}

func (d *decoder) headers(p *Provider) func(*yaml.Node) {
	return func(n *yaml.Node) {
		p.headers = make(map[string]Key)
		d.entries(n, func(key, value *yaml.Node) {
			var text string
			d.text(&text)(value)
			if !headerName.fits(key.Value) {
				d.fail(key, "this is no name of a header")
			}
			p.headers[key.Value] = NewKey(text)
		})
	}
}

// keepAlive reads a time, or the word forever.
func (d *reader) keepAlive(out *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Value == "forever" {
			*out = -1
			return
		}
		d.duration(out)(n)
	}
}

// Servers are all providers, ready or not, sorted by name: those of the files and those that
// are built in. One that is not ready has an error, by its name in the second result.
func (c *Config) Servers(getenv func(string) string) ([]Server, map[string]error) {
	var servers []Server
	faults := make(map[string]error)
	for _, name := range providerNames(c.Models.Providers) {
		s, err := c.Server(name, getenv)
		if err != nil {
			faults[name] = err
		}
		servers = append(servers, s)
	}
	return servers, faults
}

// Server returns the provider of a name with its variables and its key. The error says what
// is missing and how to give it.
func (c *Config) Server(name string, getenv func(string) string) (Server, error) {
	p, ok := c.Models.Providers[name]
	b, isBuiltIn := builtIn[name]
	if !ok && !isBuiltIn {
		return Server{Name: name}, fmt.Errorf("there is no provider %q; there are %s", name, strings.Join(providerNames(c.Models.Providers), ", "))
	}
	if !ok {
		p.Type = b.kind
	}
	s := Server{Provider: p, Name: name, Configured: ok}
	err := s.resolve(getenv)
	if s.BaseURL == "" && isBuiltIn { // nothing, or variables that stand for nothing
		s.BaseURL = b.url
		if b.urlEnv != "" && getenv(b.urlEnv) != "" {
			s.BaseURL, s.Configured = getenv(b.urlEnv), true
		}
		// Only there: the key of the environment is not for a server that a file has put in its place.
		if key := getenv(b.keyEnv); key != "" && p.apiKey == "" && p.keyEnv == "" && p.keyFile == "" {
			s.APIKey, s.Configured = NewKey(key), true
		}
	}
	if err == nil && isBuiltIn && p.Type == TypeOpenAI && s.BaseURL == b.url && s.APIKey.IsZero() {
		err = fmt.Errorf("%s is not set", b.keyEnv)
		if b.urlEnv != "" {
			err = fmt.Errorf("neither %s nor %s is set", b.keyEnv, b.urlEnv)
		}
	}
	return s, err
}

// resolve expands the variables and reads the key.
func (s *Server) resolve(getenv func(string) string) (err error) {
	if s.BaseURL, err = expand(s.baseURL, getenv); err != nil {
		return fmt.Errorf("base_url: %w", err)
	}
	if s.BaseURL == "" && s.baseURL != "" && !usual(s.Name, s.Type) {
		return errors.New("base_url: its variables are empty")
	}
	if u, err := url.Parse(s.BaseURL); s.BaseURL != "" && s.Type == TypeOpenAI &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
		return errors.New("base_url: want an http or https URL without credentials") // err would show it
	}
	s.Headers = make(map[string]Key, len(s.headers))
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		value, err := expand(s.headers[name].Reveal(), getenv)
		if err != nil {
			return fmt.Errorf("headers: %s: %w", name, err)
		}
		if !isHeader(value) {
			return fmt.Errorf("headers: %s: its value is not one line", name)
		}
		s.Headers[name] = NewKey(value)
	}
	switch {
	case s.keyEnv != "":
		s.APIKey = NewKey(strings.TrimSpace(getenv(s.keyEnv)))
		if s.APIKey.IsZero() {
			return fmt.Errorf("api_key_env: %s is not set", s.keyEnv)
		}
	case s.keyFile != "":
		if s.APIKey, err = readKey(s.file(s.keyFile)); err != nil {
			return fmt.Errorf("api_key_file: %w", err)
		}
	case s.apiKey != "":
		text, err := expand(s.apiKey, getenv)
		if err != nil {
			return fmt.Errorf("api_key: %w", err)
		}
		s.APIKey = NewKey(strings.TrimSpace(text))
	}
	if !isHeader(s.APIKey.Reveal()) {
		return errors.New("the key is not one line")
	}
	return nil
}

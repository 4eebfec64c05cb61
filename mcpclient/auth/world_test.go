package auth_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcp"
)

// world is an MCP server and its authorization servers at one origin, each issuer at a path of
// its own. Every secret that it gives out has "-secret-" in it.
type world struct {
	base string

	mu                sync.Mutex // guards all below: requests come from many goroutines
	n                 map[string]int
	serial            int
	clients           map[string]string // the issuer by client id
	codes             map[string]url.Values
	refresh           map[string]url.Values // what was granted, by refresh token; a used one is gone
	access            map[string]access
	seen              []string // all that a form or a header has shown to an authorization server, by issuer
	verifiers, states []string // that the client has made

	elsewhere  string                // the origin of the issuers, if not base
	issuers    []string              // that the resource metadata names; nil is no resource metadata
	resource   string                // that it is about, if not the server
	serverAS   map[string]any        // changes of the metadata of authorization servers
	free       bool                  // nothing is refused
	bare       bool                  // authorization servers have no metadata
	openid     bool                  // they have it as OpenID Connect does, behind the path
	stream     bool                  // of events, guarded
	noClients  int                   // status of a registration, if not 0
	registered []string              // what registrations have said
	challenged string                // scopes of the challenge of a 401
	noResource bool                  // requests without a resource are good
	iss        string                // in redirects; "" is the right one
	life       int                   // of access tokens, in seconds; 0 is not said
	single     bool                  // no refresh tokens
	trouble    int                   // status of the token endpoint, if not 0
	secret     string                // that every client must show
	open       bool                  // initialize passes without a token
	refuse     bool                  // every token is refused
	wants      map[string]string     // the scope that a tool needs
	forbid     bool                  // 403 without insufficient_scope
	deaf       bool                  // what a tool wants is never there
	devices    map[string]url.Values // what was asked for, by device code
	polls      []string              // answers for a device code, in order: an error code, "" for the tokens, "500"
	polled     []time.Time
	documents  map[string]any     // further ones, by path
	posted     bool               // clients show their secret in the form
	withheld   string             // a scope that no person gives
	noDevices  bool               // a registration for device codes is refused
	onRefresh  func()             // is called while a refresh token is replaced
	onToken    func(token string) // hears of each token that is shown
	onRefused  func(n int)
}

// access is a token that was given out.
type access struct {
	scopes  []string
	expires time.Time
	issuer  string
}

func newWorld() *world {
	return &world{
		base: "https://mcp.example", n: map[string]int{}, clients: map[string]string{}, codes: map[string]url.Values{},
		refresh: map[string]url.Values{}, devices: map[string]url.Values{}, access: map[string]access{}, issuers: []string{"/as1"},
	}
}

// set changes the world.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// count returns how often something has happened.
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n[what]
}

// RoundTrip is the network of a bubble.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if req.Body == nil {
		req.Body = http.NoBody
	}
	defer req.Body.Close()
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, req)
	resp := rec.Result()
	resp.Request = req
	return resp, nil
}

func (w *world) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	path := r.URL.Path
	if issuer, ok := strings.CutPrefix(path, "/.well-known/oauth-authorization-server"); ok && !w.openid && !w.bare {
		w.metadata(out, issuer)
		return
	}
	if issuer, ok := strings.CutSuffix(path, "/.well-known/openid-configuration"); ok && w.openid {
		w.metadata(out, issuer)
		return
	}
	if strings.HasPrefix(path, "/.well-known/oauth-protected-resource") {
		w.protected(out)
		return
	}
	if doc, ok := w.documents[path]; ok {
		answer(out, http.StatusOK, doc)
		return
	}
	if path == "/mcp" {
		w.serve(out, r, body)
		return
	}
	issuer := path[:max(0, strings.LastIndexByte(path, '/'))]
	form, _ := url.ParseQuery(string(body))
	w.seen = append(w.seen, issuer+" "+r.URL.RawQuery+" "+string(body)+" "+r.Header.Get("Authorization"))
	switch path[len(issuer):] {
	case "/register":
		w.register(out, issuer, body)
	case "/authorize":
		w.authorize(out, r, issuer)
	case "/token":
		w.token(out, r, issuer, form)
	case "/revoke":
		if _, secret, _ := r.BasicAuth(); secret != w.secret {
			answer(out, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
			return
		}
		w.n["revoke"]++
		delete(w.refresh, form.Get("token"))
	case "/device":
		w.device(out, issuer, form)
	default:
		http.NotFound(out, r)
	}
}

func answer(out http.ResponseWriter, status int, v any) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	_ = json.NewEncoder(out).Encode(v)
}

// protected serves the metadata of the resource.
func (w *world) protected(out http.ResponseWriter) {
	w.n["metadata"]++
	if w.issuers == nil {
		out.WriteHeader(http.StatusNotFound)
		return
	}
	var issuers []string
	for _, path := range w.issuers {
		issuers = append(issuers, cmp.Or(w.elsewhere, w.base)+path)
	}
	resource := w.resource
	if resource == "" {
		resource = w.base + "/mcp"
	}
	answer(out, http.StatusOK, map[string]any{"resource": resource, "authorization_servers": issuers, "scopes_supported": []string{"read"}})
}

// metadata serves that of an authorization server. Without resource metadata the one of
// 2025-03-26 is at the origin.
func (w *world) metadata(out http.ResponseWriter, issuer string) {
	if (issuer == "") != (w.issuers == nil) {
		out.WriteHeader(http.StatusNotFound)
		return
	}
	at := cmp.Or(w.elsewhere, w.base) + issuer
	m := map[string]any{
		"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "registration_endpoint": at + "/register",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic"},
	}
	for name, v := range w.serverAS {
		if m[name] = v; v == nil {
			delete(m, name)
		}
	}
	answer(out, http.StatusOK, m)
}

func (w *world) register(out http.ResponseWriter, issuer string, body []byte) {
	w.n["register"]++
	var asked struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	_ = json.Unmarshal(body, &asked)
	w.registered = append(w.registered, string(body))
	if w.noClients != 0 {
		answer(out, w.noClients, map[string]string{"error": "invalid_client_metadata", "error_description": "no natives"})
		return
	}
	if w.noDevices && strings.Contains(string(body), oauth.TypeDeviceGrant) {
		answer(out, http.StatusBadRequest, map[string]string{"error": "invalid_client_metadata"})
		return
	}
	w.serial++
	id := fmt.Sprintf("client%s-%d", strings.ReplaceAll(issuer, "/", "-"), w.serial)
	w.clients[id] = issuer
	got := map[string]any{"client_id": id, "redirect_uris": asked.RedirectURIs, "token_endpoint_auth_method": "none"}
	if w.secret != "" {
		got["client_secret"], got["token_endpoint_auth_method"] = w.secret, "client_secret_basic"
	}
	answer(out, http.StatusCreated, got)
}

// authorize agrees at once.
func (w *world) authorize(out http.ResponseWriter, r *http.Request, issuer string) {
	w.n["authorize"]++
	q := r.URL.Query()
	known, registered := w.clients[q.Get("client_id")]
	if registered && known != issuer || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("response_type") != "code" ||
		w.issuers != nil && !w.noResource && q.Get("resource") != w.base+"/mcp" {
		http.Error(out, "a bad request", http.StatusBadRequest)
		return
	}
	w.serial++
	code := fmt.Sprintf("code-secret-%d", w.serial)
	w.codes[code], w.states = q, append(w.states, q.Get("state"))
	iss := w.iss
	if iss == "" {
		iss = w.base + issuer
	}
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {iss}}
	http.Redirect(out, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (w *world) token(out http.ResponseWriter, r *http.Request, issuer string, form url.Values) {
	kind := form.Get("grant_type")
	w.n[kind]++
	if w.trouble != 0 {
		out.WriteHeader(w.trouble)
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id = form.Get("client_id")
	}
	if w.posted {
		secret = form.Get("client_secret")
	}
	if known, ok := w.clients[id]; ok && known != issuer || secret != w.secret {
		answer(out, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	var granted url.Values
	switch kind {
	case oauth.TypeDeviceGrant:
		w.polled = append(w.polled, time.Now())
		code := w.polls[0]
		w.polls = w.polls[1:]
		switch code {
		case "":
			granted = w.devices[form.Get("device_code")]
			delete(w.devices, form.Get("device_code"))
		case "500":
			out.WriteHeader(http.StatusInternalServerError)
			return
		default:
			answer(out, http.StatusBadRequest, map[string]string{"error": code})
			return
		}
	case "authorization_code":
		granted = w.codes[form.Get("code")]
		delete(w.codes, form.Get("code"))
		verifier := form.Get("code_verifier")
		w.verifiers = append(w.verifiers, verifier)
		sum := sha256.Sum256([]byte(verifier))
		if granted.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			granted = nil
		}
	case "client_credentials":
		granted = url.Values{"client_id": {id}, "resource": {form.Get("resource")}, "scope": {form.Get("scope")}}
	case "refresh_token":
		if w.onRefresh != nil {
			defer w.onRefresh()
		}
		granted = w.refresh[form.Get("refresh_token")]
		delete(w.refresh, form.Get("refresh_token"))
	}
	if granted == nil || granted.Get("client_id") != id || granted.Get("resource") != form.Get("resource") {
		answer(out, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": "no grant for " + form.Encode()})
		return
	}
	w.give(out, issuer, granted)
}

// device begins an authorization on another device.
func (w *world) device(out http.ResponseWriter, issuer string, form url.Values) {
	w.n["device"]++
	if w.clients[form.Get("client_id")] != issuer || form.Get("resource") != w.base+"/mcp" {
		answer(out, http.StatusBadRequest, map[string]string{"error": "unauthorized_client"})
		return
	}
	w.serial++
	code := fmt.Sprintf("device-secret-%d", w.serial)
	w.devices[code] = form
	answer(out, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": w.base + "/d", "verification_uri_complete": w.base + "/d?c=WDJB-MJHT", "expires_in": 300, "interval": 2,
	})
}

// give gives tokens out.
func (w *world) give(out http.ResponseWriter, issuer string, granted url.Values) {
	if w.withheld != "" {
		granted = maps.Clone(granted)
		granted.Set("scope", strings.TrimSpace(strings.ReplaceAll(" "+granted.Get("scope")+" ", " "+w.withheld+" ", " ")))
	}
	w.serial++
	token := fmt.Sprintf("access-secret-%d", w.serial)
	got := map[string]any{"access_token": token, "token_type": "Bearer", "scope": granted.Get("scope")}
	a := access{scopes: strings.Fields(granted.Get("scope")), issuer: issuer}
	if w.life != 0 {
		got["expires_in"] = w.life
		a.expires = time.Now().Add(time.Duration(w.life) * time.Second)
	}
	if !w.single {
		refresh := fmt.Sprintf("refresh-secret-%d", w.serial)
		got["refresh_token"], w.refresh[refresh] = refresh, granted
	}
	w.access[token] = a
	answer(out, http.StatusOK, got)
}

// serve is the MCP server, one of 2025-11-25.
func (w *world) serve(out http.ResponseWriter, r *http.Request, body []byte) {
	var m mcp.Message
	if r.Method == http.MethodGet && w.stream && w.refusal(out, r, "") != 0 {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost {
		out.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.URL.RawQuery != "" {
		w.n["query"]++
	}
	_ = mcp.Scan(body, &m)
	var p struct {
		Name string `json:"name"`
	}
	_ = m.DecodeParams(&p)
	if !w.free && (m.Method == mcp.MethodCallTool || !w.open) {
		if refusal := w.refusal(out, r, p.Name); refusal != 0 {
			w.n["refused"]++
			if w.onRefused != nil {
				w.onRefused(w.n["refused"])
			}
			out.WriteHeader(refusal)
			fmt.Fprintf(out, "you have sent %q", r.Header.Get("Authorization"))
			return
		}
	}
	result := `{}`
	switch m.Method {
	case mcp.MethodDiscover:
		answer(out, http.StatusBadRequest, map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32000, "message": "Bad Request: Server not initialized"}})
		return
	case mcp.MethodInitialize:
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"world","version":"1"}}`
	case mcp.MethodListTools:
		result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"u","inputSchema":{"type":"object"}}]}`
	case mcp.MethodCallTool:
		w.n["call"]++
		result = `{"content":[{"type":"text","text":"done"}]}`
	}
	if m.Kind != mcp.KindRequest {
		out.WriteHeader(http.StatusAccepted)
		return
	}
	answer(out, http.StatusOK, json.RawMessage(`{"jsonrpc":"2.0","id":`+m.ID.String()+`,"result":`+result+`}`))
}

// refusal refuses a request with a status and a challenge; 0 lets it pass.
func (w *world) refusal(out http.ResponseWriter, r *http.Request, tool string) int {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if w.onToken != nil && token != "" {
		w.onToken(token)
	}
	challenge := `Basic realm="a, \"b\" Bearer resource_metadata=https://evil.example/prm", Bearer realm="x"`
	if w.issuers != nil {
		challenge += `, resource_metadata="` + w.base + `/.well-known/oauth-protected-resource/mcp"`
	}
	a, ok := w.access[token]
	trusted := a.issuer == "" && w.issuers == nil || slices.Contains(w.issuers, a.issuer)
	if w.challenged != "" {
		challenge += `, scope="` + w.challenged + `"`
	}
	status, want := 0, w.wants[tool]
	switch {
	case scheme != "Bearer" || !ok || !trusted || w.refuse || !a.expires.IsZero() && !time.Now().Before(a.expires):
		status = http.StatusUnauthorized
	case w.forbid:
		status, challenge = http.StatusForbidden, challenge+`, error="access_denied"`
	case want != "" && (w.deaf || !slices.Contains(a.scopes, want)):
		status, challenge = http.StatusForbidden, challenge+`, error="insufficient_scope", scope="`+want+`"`
	}
	if status != 0 {
		out.Header().Set("WWW-Authenticate", challenge)
	}
	return status
}

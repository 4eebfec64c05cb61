package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// LIFE-01, LIFE-05: the pinned revision is what was agreed on.
func handshake(t *testing.T, r *rig) {
	if want := t.Name(); !strings.Contains(want, string(r.info.Version)) || r.info.Era != mcp.EraLegacy {
		t.Errorf("agreed on %s, %s", r.info.Version, r.info.Era)
	}
	if r.info.Server == nil || r.info.Server.Name != "mcp-servers/everything" || !strings.Contains(r.info.Instructions, "Everything") {
		t.Errorf("Info: got %+v and the instructions %.60q", r.info.Server, r.info.Instructions)
	}
	caps := r.info.Capabilities
	if caps.Tools == nil || caps.Prompts == nil || caps.Resources == nil || !caps.Resources.Subscribe || caps.Logging == nil {
		t.Errorf("capabilities: got %+v, want tools, prompts, resources with subscribe, logging", caps)
	}
	if err := r.client.Ping(r.ctx); err != nil {
		t.Errorf("Ping: %v", err) // PING-01
	}
}

func tools(t *testing.T, r *rig) {
	list, err := r.client.ListTools(r.ctx)
	if err != nil || len(list) < 13 {
		t.Fatalf("ListTools: got %d, %v, want 13 at least", len(list), err)
	}
	if got := r.call(t, "echo", `{"message":"grüße"}`, nil).Content.Text(); got != "Echo: grüße" {
		t.Errorf("echo: got %q", got)
	}
	if got := r.call(t, "get-sum", `{"a":19,"b":23}`, nil).Content.Text(); !strings.Contains(got, "42") {
		t.Errorf("get-sum: got %q, want 42 in it", got)
	}
	// TOOL-09: what a tool refuses is a result or an error; either names the argument.
	res, err := r.client.CallTool(r.ctx, "get-sum", json.RawMessage(`{"a":"x"}`), nil)
	if err == nil && !res.IsError {
		t.Errorf("get-sum of a string: got %+v", res)
	}
	// TOOL-08 is an error, but this server gives a failed result.
	if res, err := r.client.CallTool(r.ctx, "no-such-tool", nil, nil); err == nil && !res.IsError {
		t.Errorf("an unknown tool: got %+v", res)
	}
}

// CONT-01, RES-10: images, embedded resources, annotations.
func contents(t *testing.T, r *rig) {
	image := slices.IndexFunc(r.call(t, "get-tiny-image", `{}`, nil).Content, func(c mcp.Content) bool {
		img, ok := c.(*mcp.ImageContent)
		return ok && img.MIMEType == "image/png" && len(img.Data) > 100
	})
	if image < 0 {
		t.Error("get-tiny-image: there is no image")
	}
	embedded := slices.IndexFunc(r.call(t, "get-resource-reference", `{"resourceType":"Text","resourceId":3}`, nil).Content, func(c mcp.Content) bool {
		res, ok := c.(*mcp.EmbeddedResource)
		return ok && res.Resource.URI == "demo://resource/dynamic/text/3" && res.Resource.Text != ""
	})
	if embedded < 0 {
		t.Error("get-resource-reference: there is no embedded resource")
	}
	annotated := r.call(t, "get-annotated-message", `{"messageType":"error","includeImage":true}`, nil).Content
	text, ok := annotated[0].(*mcp.TextContent)
	if !ok || text.Annotations == nil || text.Annotations.Priority == nil || *text.Annotations.Priority != 1 || len(text.Annotations.Audience) != 2 {
		t.Errorf("get-annotated-message: got %+v", annotated[0])
	}
}

// TOOL-11: the structured content fits the output schema, which is checked on the way.
func structured(t *testing.T, r *rig) {
	res := r.call(t, "get-structured-content", `{"location":"Chicago"}`, nil)
	const want = `{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}`
	if got := res.Content.Text(); got != want {
		t.Errorf("the text: got %s, want %s", got, want)
	}
	if r.is(mcp.V2025_06_18) && string(res.StructuredContent) != want {
		t.Errorf("the structured content: got %s, want %s", res.StructuredContent, want)
	}
}

// CONT-01, CONT-02: resource links can be read.
func resourceLinks(t *testing.T, r *rig) {
	res := r.call(t, "get-resource-links", `{"count":4}`, nil)
	if len(res.Content) != 5 {
		t.Fatalf("get-resource-links: got %d blocks, want 5", len(res.Content))
	}
	for _, c := range res.Content[1:] {
		link, ok := c.(*mcp.ResourceLink)
		if !ok {
			t.Fatalf("got a block %T, want a link", c)
		}
		read, err := r.client.ReadResource(r.ctx, link.URI, nil)
		if err != nil || len(read.Contents) != 1 || read.Contents[0].URI != link.URI {
			t.Errorf("reading the link %s: got %+v, %v", link.URI, read, err)
		}
	}
}

// RES-01, RES-02, RES-03, RES-04.
func resources(t *testing.T, r *rig) {
	list, err := r.client.ListResources(r.ctx)
	if err != nil || len(list) < 7 {
		t.Fatalf("ListResources: got %d, %v, want 7 at least", len(list), err)
	}
	for _, res := range list[:2] {
		read, err := r.client.ReadResource(r.ctx, res.URI, nil)
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text == "" {
			t.Errorf("ReadResource(%s): got %+v, %v", res.URI, read, err)
		}
	}
	templates, err := r.client.ListResourceTemplates(r.ctx)
	if err != nil || len(templates) != 2 {
		t.Fatalf("ListResourceTemplates: got %+v, %v, want two", templates, err)
	}
	read, err := r.client.ReadResource(r.ctx, "demo://resource/dynamic/blob/7", nil)
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Blob == nil {
		t.Errorf("a blob: got %+v, %v", read, err)
	}
	if read, err := r.client.ReadResource(r.ctx, "demo://nothing/here", nil); err == nil {
		t.Errorf("an unknown resource: got %+v, want an error", read)
	}
}

// RES-06: a tool makes a new resource; the server tells of it.
func changedList(t *testing.T, r *rig) {
	data := base64.StdEncoding.EncodeToString([]byte("hello, troupe"))
	res := r.call(t, "gzip-file-as-resource", `{"name":"`+t.Name()+`.gz","data":"data:text/plain;base64,`+data+`"}`, nil)
	link, ok := res.Content[0].(*mcp.ResourceLink)
	if !ok {
		t.Fatalf("gzip-file-as-resource: got %T, want a link", res.Content[0])
	}
	next(r.ctx, t, r.resources, "the change of the resources")
	list, err := r.client.ListResources(r.ctx)
	if err != nil || !slices.ContainsFunc(list, func(res mcp.Resource) bool { return res.URI == link.URI }) {
		t.Errorf("ListResources: got %d, %v, want %s among them", len(list), err, link.URI)
	}
	read, err := r.client.ReadResource(r.ctx, link.URI, nil)
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Blob == nil {
		t.Fatalf("ReadResource(%s): got %+v, %v", link.URI, read, err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(read.Contents[0].Blob))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(zipped); err != nil || string(text) != "hello, troupe" {
		t.Errorf("the file: got %q, %v", text, err)
	}
}

// PRM-01, PRM-04.
func prompts(t *testing.T, r *rig) {
	list, err := r.client.ListPrompts(r.ctx)
	if err != nil || len(list) != 4 {
		t.Fatalf("ListPrompts: got %d, %v, want 4", len(list), err)
	}
	tests := []struct {
		name string
		args map[string]string
		want string
	}{
		{"simple-prompt", nil, "This is a simple prompt without arguments."},
		{"args-prompt", map[string]string{"city": "Ulm", "state": "Bavaria"}, "What's weather in Ulm, Bavaria?"},
		{"resource-prompt", map[string]string{"resourceType": "Text", "resourceId": "5"}, "This prompt includes the Text resource with id: 5"},
	}
	for _, tt := range tests {
		got, err := r.client.GetPrompt(r.ctx, tt.name, tt.args, nil)
		if err != nil || len(got.Messages) == 0 {
			t.Errorf("GetPrompt(%s): got %+v, %v", tt.name, got, err)
			continue
		}
		if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || !strings.Contains(text.Text, tt.want) {
			t.Errorf("GetPrompt(%s): got %+v, want %q", tt.name, got.Messages[0].Content, tt.want)
		}
	}
	if _, err := r.client.GetPrompt(r.ctx, "args-prompt", nil, nil); !errors.Is(err, mcp.ErrInvalidParams) {
		t.Errorf("GetPrompt without its argument: got %v, want %v", err, mcp.ErrInvalidParams)
	}
}

// CMP-01, CMP-02: of a prompt's argument, of one that depends on another, of a template.
func completions(t *testing.T, r *rig) {
	prompt := mcp.CompletionRef{Type: mcp.RefPrompt, Name: "completable-prompt"}
	tests := []struct {
		params mcp.CompleteParams
		since  mcp.Version
		want   []string
	}{
		{mcp.CompleteParams{Ref: prompt, Argument: mcp.CompletionArgument{Name: "department", Value: "S"}}, mcp.V2024_11_05, []string{"Sales", "Support"}},
		{mcp.CompleteParams{Ref: prompt, Argument: mcp.CompletionArgument{Name: "name", Value: "A"},
			Context: &mcp.CompletionContext{Arguments: map[string]string{"department": "Engineering"}}}, mcp.V2025_06_18, []string{"Alice"}},
		{mcp.CompleteParams{Ref: mcp.CompletionRef{Type: mcp.RefResource, URI: "demo://resource/dynamic/text/{resourceId}"},
			Argument: mcp.CompletionArgument{Name: "resourceId", Value: "12"}}, mcp.V2024_11_05, []string{"12"}},
	}
	for _, tt := range tests {
		if !r.is(tt.since) {
			continue
		}
		got, err := r.client.Complete(r.ctx, &tt.params)
		if err != nil || !slices.Equal(got.Values, tt.want) {
			t.Errorf("Complete(%+v): got %+v, %v, want %q", tt.params.Argument, got, err, tt.want)
		}
	}
}

// PROG-01, PROG-02: progress comes in order and before the result.
func progress(t *testing.T, r *rig) {
	var steps []mcpclient.Progress
	res := r.call(t, "trigger-long-running-operation", `{"duration":0.2,"steps":4}`, &mcpclient.CallOptions{
		Progress: func(p mcpclient.Progress) { steps = append(steps, p) },
	})
	if !strings.Contains(res.Content.Text(), "completed") || len(steps) != 4 {
		t.Fatalf("got %q after %d steps, want 4", res.Content.Text(), len(steps))
	}
	for i, step := range steps {
		if step.Progress != float64(i+1) || step.Total == nil || *step.Total != 4 {
			t.Errorf("step %d: got %+v", i+1, step)
		}
	}
}

// CANC-01: a call that is given up ends at once, and the connection goes on.
func cancel(t *testing.T, r *rig) {
	why := errors.New("no longer wanted")
	ctx, stop := context.WithCancelCause(r.ctx)
	_, err := r.client.CallTool(ctx, "trigger-long-running-operation", json.RawMessage(`{"duration":30,"steps":600}`), &mcpclient.CallOptions{
		Progress: func(mcpclient.Progress) { stop(why) },
	})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	r.call(t, "echo", `{"message":"still here"}`, nil)
}

// LOG-03.
func logging(t *testing.T, r *rig) {
	if err := r.client.SetLogLevel(r.ctx, mcp.LogDebug); err != nil {
		t.Fatalf("SetLogLevel: %v", err)
	}
	r.call(t, "toggle-simulated-logging", `{}`, nil)
	for {
		log := next(r.ctx, t, r.logs, "a log message")
		if strings.Contains(string(log.Data), "level") {
			break // others, such as of the roots, may come before
		}
	}
	r.call(t, "toggle-simulated-logging", `{}`, nil)
}

// RES-05: a resource that changes.
func subscriptions(t *testing.T, r *rig) {
	const uri = "demo://resource/dynamic/text/1"
	updates := make(chan string, 10)
	sub, err := r.client.Subscribe(r.ctx, uri, func(uri string) { updates <- uri })
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	r.call(t, "toggle-subscriber-updates", `{}`, nil)
	if got := next(r.ctx, t, updates, "the update"); got != uri {
		t.Errorf("updated: got %q, want %q", got, uri)
	}
	r.call(t, "toggle-subscriber-updates", `{}`, nil)
	if err := sub.Close(); err != nil {
		t.Errorf("closing the subscription: %v", err)
	}
}

// ROOT-01, ROOT-02: the server asks for the roots, and again when it hears that they
// have changed.
func roots(t *testing.T, r *rig) {
	if got := r.call(t, "get-roots-list", `{}`, nil).Content.Text(); !strings.Contains(got, r.root.URI) {
		t.Errorf("get-roots-list: got %q, want %s in it", got, r.root.URI)
	}
	other := Root(t)
	if err := r.client.SetRoots([]mcp.Root{other}); err != nil {
		t.Fatalf("SetRoots: %v", err)
	}
	for { // the server asks on its own account: until it has done so it knows the old ones
		got := r.call(t, "get-roots-list", `{}`, nil).Content.Text()
		if strings.Contains(got, other.URI) {
			break
		}
	}
}

// SAMP-01, SAMP-40: a model answers for the server; a person sees both ways.
func sampling(t *testing.T, r *rig) {
	before := len(r.person.Asks())
	res := r.call(t, "trigger-sampling-request", `{"prompt":"What is the capital of France?","maxTokens":20}`, nil)
	if got := res.Content.Text(); !strings.Contains(got, "Paris") || !strings.Contains(got, "scripted") {
		t.Errorf("got %q, want Paris, by scripted", got)
	}
	asks := r.person.Asks()[before:]
	if len(asks) != 2 || asks[0].Kind != mcpclient.AskSampling || asks[1].Kind != mcpclient.AskSample {
		t.Fatalf("the person was asked %+v, want about the sampling and the sample", asks)
	}
	if got := asks[0].Sampling; got.MaxTokens != 20 || got.SystemPrompt != "You are a helpful test server." || len(got.Messages) != 1 {
		t.Errorf("the request: got %+v", got)
	}
}

// ELIC-01, ELIC-06, ELIC-09: every kind of field, filled in and with defaults. In
// 2025-06-18 the server sends kinds that came later: they are shown nevertheless.
func formElicitation(t *testing.T, r *rig) {
	const tool = "trigger-elicitation-request"
	if !r.is(mcp.V2025_06_18) {
		r.lacks(t, tool)
		return
	}
	res := r.call(t, tool, `{}`, nil)
	_, raw, ok := strings.Cut(res.Content.Text(), "Raw result: ")
	if !ok {
		t.Fatalf("got %q", res.Content.Text())
	}
	var answer struct {
		Action  string
		Content map[string]any
	}
	if err := json.Unmarshal([]byte(raw), &answer); err != nil {
		t.Fatalf("reading %s: %v", raw, err)
	}
	for field, want := range map[string]any{
		"name": "Ada", "check": true, "firstLine": "It was a dark and stormy night.", "integer": 42.0, "number": 3.14, "untitledSingleSelectEnum": "Monica",
		"titledSingleSelectEnum": "hero-1", "legacyTitledEnum": "pet-1",
	} {
		if answer.Content[field] != want {
			t.Errorf("%s: got %v, want %v", field, answer.Content[field], want)
		}
	}
	for _, action := range []string{mcp.ActionDecline, mcp.ActionCancel} {
		res := r.call(t, tool, `{}`, &mcpclient.CallOptions{Human: &Person{Action: action}})
		if got := res.Content.Text(); !strings.Contains(got, `"action": "`+action+`"`) {
			t.Errorf("with %s: got %q", action, got)
		}
	}
}

// URL-11: a page is opened after consent, and only then.
func urlElicitation(t *testing.T, r *rig) {
	const tool, args = "trigger-url-elicitation", `{"url":"https://example.com/page","message":"Please look."}`
	if !r.is(mcp.V2025_11_25) {
		r.lacks(t, tool)
		return
	}
	opened := len(r.person.Opened())
	res := r.call(t, tool, args, nil)
	if got := res.Content.Text(); !strings.Contains(got, `"action": "accept"`) {
		t.Errorf("got %q, want that it was accepted", got)
	}
	if got := r.person.Opened()[opened:]; !slices.Equal(got, []string{"https://example.com/page"}) {
		t.Errorf("opened %q", got)
	}
	res = r.call(t, tool, args, &mcpclient.CallOptions{Human: &Person{Action: mcp.ActionDecline}})
	if got := res.Content.Text(); !strings.Contains(got, `"action": "decline"`) {
		t.Errorf("declined: got %q", got)
	}
	if got := len(r.person.Opened()) - opened; got != 1 {
		t.Errorf("%d pages were opened, want 1", got)
	}
}

// URL-40, URL-41, URL-17: a call that needs a page first (-32042) waits for it and is made
// again. This server never says that the page is completed: a person retries.
func urlRequired(t *testing.T, r *rig) {
	if !r.is(mcp.V2025_11_25) {
		return
	}
	ended := make(chan error, 1)
	waiting := make(chan bool, 10)
	go func() {
		res, err := r.client.CallTool(r.ctx, "trigger-url-elicitation",
			json.RawMessage(`{"url":"https://example.com/after","message":"Please look.","errorPath":true}`),
			&mcpclient.CallOptions{OnWait: func(on bool) { waiting <- on }})
		if err == nil && !strings.Contains(res.Content.Text(), `"action": "accept"`) {
			err = errors.New(res.Content.Text())
		}
		ended <- err
	}()
	required := func(e *mcpclient.Elicitation) bool { return e.URL.Host == "modelcontextprotocol.io" }
	next(r.ctx, t, waiting, "the wait")
	var pending []*mcpclient.Elicitation // pages that were opened before may be pending, too
	for !slices.ContainsFunc(pending, required) && r.ctx.Err() == nil {
		pending = r.client.Elicitations()
	}
	i := slices.IndexFunc(pending, required)
	if i < 0 {
		t.Fatalf("the page is not pending: got %+v", pending)
	}
	pending[i].Retry()
	if err := next(r.ctx, t, ended, "the end of the call"); err != nil {
		t.Errorf("the call: %v", err)
	}
	if got := r.person.Opened(); len(got) < 2 || got[len(got)-2] != "https://modelcontextprotocol.io/" || got[len(got)-1] != "https://example.com/after" {
		t.Errorf("opened %q, want the page that was required and then the one asked for", got)
	}
}

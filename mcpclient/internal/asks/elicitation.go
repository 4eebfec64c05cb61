package asks

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/mcp"
)

// maxMessageText is more than a person reads before answering (ROB-9).
const maxMessageText = 64 << 10

// ParseElicit checks an elicitation. The mode must be declared (ELIC-02), a form
// within what may be shown (ELIC-06, ELIC-10), a URL one that a person may be asked
// about (URL-16). It returns the form or the page.
func ParseElicit(v mcp.Version, caps *mcp.ClientCapabilities, params json.RawMessage) (*mcp.ElicitParams, *form.Form, *PageView, error) {
	p := new(mcp.ElicitParams)
	if err := mcp.Unmarshal(params, p); err != nil {
		return nil, nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: %v", mcp.MethodElicit, err)
	}
	if len(p.Message) > maxMessageText {
		return nil, nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "a message of more than %d bytes is not shown to a person", maxMessageText)
	}
	if p.IsURL() {
		if !caps.ElicitURL() {
			return nil, nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "URL elicitation was not declared")
		}
		view, err := ParseURL(v, p)
		return p, nil, view, err
	}
	if !caps.ElicitForm() {
		return nil, nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "form elicitation was not declared")
	}
	// Servers send the forms of later revisions in sessions of 2025-06-18, too.
	f, err := form.Parse(p.RequestedSchema, max(v, mcp.V2025_11_25))
	if err != nil {
		return nil, nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "the form cannot be shown: %v", err)
	}
	return p, f, nil, nil
}

// ParseURL checks the elicitation of a page.
func ParseURL(v mcp.Version, p *mcp.ElicitParams) (*PageView, error) {
	if v.Has(mcp.FeatureElicitationIDs) && p.ElicitationID == "" { // URL-01
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "URL elicitation without elicitationId")
	}
	checked, err := weburl.Check(p.URL)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "the URL is refused: %v", err)
	}
	view := &PageView{URL: checked.URL, Host: checked.Host, Domain: checked.Domain, Warnings: checked.Warnings}
	if v.Has(mcp.FeatureElicitationIDs) {
		view.ElicitationID = p.ElicitationID
	}
	return view, nil
}

package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Resource describes a resource.
type Resource struct {
	URI         string       `json:"uri"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"`
	Size        *int64       `json:"size,omitzero"` // bytes, before any encoding
	Annotations *Annotations `json:"annotations,omitzero"`
	Icons       []Icon       `json:"icons,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that a resource has a URI and a name.
func (r *Resource) Validate() error {
	return errors.Join(required("resource", "uri", r.URI != ""), required("resource", "name", r.Name != ""))
}

// ResourceTemplate describes a family of resources by an RFC 6570 template.
type ResourceTemplate struct {
	URITemplate string       `json:"uriTemplate"`
	Name        string       `json:"name"`
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"` // only if all matches share it
	Annotations *Annotations `json:"annotations,omitzero"`
	Icons       []Icon       `json:"icons,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that a template has a URI template and a name.
func (r *ResourceTemplate) Validate() error {
	return errors.Join(required("resource template", "uriTemplate", r.URITemplate != ""),
		required("resource template", "name", r.Name != ""))
}

// ResourceContents is what a resource holds: bytes if Blob is not nil, else
// text.
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte // decoded; base64 on the wire
	Meta     Meta

	Extra map[string]json.RawMessage
}

// resourceContentsWire tells an absent text from an empty one.
type resourceContentsWire struct {
	URI      string                     `json:"uri"`
	MIMEType string                     `json:"mimeType,omitzero"`
	Text     *string                    `json:"text,omitzero"`
	Blob     *[]byte                    `json:"blob,omitzero"`
	Meta     Meta                       `json:"_meta,omitzero"`
	Extra    map[string]json.RawMessage `json:",inline,embed"`
}

// MarshalJSON writes either blob or text.
func (c ResourceContents) MarshalJSON() ([]byte, error) {
	w := resourceContentsWire{URI: c.URI, MIMEType: c.MIMEType, Meta: c.Meta, Extra: c.Extra}
	if c.Blob != nil {
		w.Blob = &c.Blob
	} else {
		w.Text = &c.Text
	}
	return jsonx.Marshal(w)
}

// UnmarshalJSON reads contents; uri and exactly one of text and blob must be there.
func (c *ResourceContents) UnmarshalJSON(raw []byte) error {
	if err := needMembers(raw, "resource contents", "uri"); err != nil {
		return err
	}
	var w resourceContentsWire
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("reading resource contents: %w", err)
	}
	if (w.Text == nil) == (w.Blob == nil) {
		return errors.New("reading resource contents: exactly one of text and blob must be there")
	}
	*c = ResourceContents{URI: w.URI, MIMEType: w.MIMEType, Meta: w.Meta, Extra: w.Extra}
	if w.Text != nil {
		c.Text = *w.Text
	} else {
		c.Blob = append([]byte{}, *w.Blob...) // not nil, also when empty
	}
	return nil
}

// ListResourcesResult is one page of resources.
type ListResourcesResult struct {
	Resources  []Resource `json:"resources"`
	NextCursor *string    `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Meta       Meta       `json:"_meta,omitzero"`
	ResultType string     `json:"resultType,omitzero"` // set by the encoder
	TTLMs      *int64     `json:"ttlMs,omitzero"`
	CacheScope string     `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that resources is there, not each of them.
func (r *ListResourcesResult) Validate() error {
	return required("resources/list result", "resources", r.Resources != nil)
}

// TTL returns how long the page is fresh.
func (r *ListResourcesResult) TTL() time.Duration { return ttl(r.TTLMs) }

// ListResourceTemplatesResult is one page of resource templates.
type ListResourceTemplatesResult struct {
	ResourceTemplates []ResourceTemplate `json:"resourceTemplates"`
	NextCursor        *string            `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Meta              Meta               `json:"_meta,omitzero"`
	ResultType        string             `json:"resultType,omitzero"` // set by the encoder
	TTLMs             *int64             `json:"ttlMs,omitzero"`
	CacheScope        string             `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that resourceTemplates is there, not each of them.
func (r *ListResourceTemplatesResult) Validate() error {
	return required("resources/templates/list result", "resourceTemplates", r.ResourceTemplates != nil)
}

// TTL returns how long the page is fresh.
func (r *ListResourceTemplatesResult) TTL() time.Duration { return ttl(r.TTLMs) }

// ReadResourceParams are the params of resources/read.
type ReadResourceParams struct {
	URI            string         `json:"uri"`
	InputResponses InputResponses `json:"inputResponses,omitzero"`
	RequestState   *string        `json:"requestState,omitzero"`
	Meta           Meta           `json:"_meta,omitzero"`
}

// Validate checks that there is a URI.
func (p *ReadResourceParams) Validate() error {
	return required(MethodReadResource, "uri", p.URI != "")
}

// ReadResourceResult answers resources/read. One read may return several contents.
type ReadResourceResult struct {
	Contents   []ResourceContents `json:"contents"`
	Meta       Meta               `json:"_meta,omitzero"`
	ResultType string             `json:"resultType,omitzero"` // set by the encoder
	TTLMs      *int64             `json:"ttlMs,omitzero"`
	CacheScope string             `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that contents is there.
func (r *ReadResourceResult) Validate() error {
	return required("resources/read result", "contents", r.Contents != nil)
}

// TTL returns how long the result is fresh.
func (r *ReadResourceResult) TTL() time.Duration { return ttl(r.TTLMs) }

// ResourceParams are the params of resources/subscribe and
// resources/unsubscribe (legacy), and of notifications/resources/updated.
type ResourceParams struct {
	URI  string `json:"uri"`
	Meta Meta   `json:"_meta,omitzero"`
}

// Validate checks that there is a URI.
func (p *ResourceParams) Validate() error { return required("resource params", "uri", p.URI != "") }

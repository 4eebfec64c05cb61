package mcp

import (
	"fmt"
	"slices"
)

// For returns the blocks as revision v may carry them: audio becomes
// a note and a resource link its URI in text where v lacks the type, and members that
// v does not have are left out. Unknown blocks stay. It returns cs itself where nothing changes.
func (cs Contents) For(v Version) Contents {
	var out Contents
	for i, c := range cs {
		d := contentFor(c, v)
		if out == nil {
			if d == c {
				continue
			}
			out = slices.Clone(cs)
		}
		out[i] = d
	}
	if out == nil {
		return cs
	}
	return out
}

func contentFor(c Content, v Version) Content { return plainFor(blockFor(c, v), v) }

// blockFor puts a block that v has in the place of one that it has not.
func blockFor(c Content, v Version) Content {
	switch c := c.(type) {
	case *AudioContent:
		if !v.Has(FeatureAudioBlocks) {
			return &TextContent{
				Text:        fmt.Sprintf("[audio, %s, %d bytes: protocol revision %s cannot carry it]", c.MIMEType, len(c.Data), v),
				Annotations: c.Annotations, Meta: c.Meta,
			}
		}
	case *ResourceLink:
		if !v.Has(FeatureResourceLinks) {
			return &TextContent{Text: linkText(c), Annotations: c.Annotations, Meta: c.Meta}
		}
	case *ToolResultContent:
		if !structuredFits(c.StructuredContent, v) && c.StructuredContent != nil {
			d := *c
			d.StructuredContent = nil
			return &d
		}
	}
	return c
}

func linkText(l *ResourceLink) string {
	name := l.Title
	if name == "" {
		name = l.Name
	}
	if name == "" || name == l.URI {
		return l.URI
	}
	return fmt.Sprintf("%s: %s", name, l.URI)
}

// versioned is a result that is written differently in different revisions.
type versioned interface {
	// inVersion returns a copy to encode for v.
	inVersion(v Version) any
}

// cacheIn returns the cache members of a result in revision v: required in
// 2026-07-28 (CACHE-01), where 0 and private are the careful defaults, absent
// before.
func cacheIn(v Version, ttlMs *int64, scope string) (*int64, string) {
	if !v.Has(FeatureCacheHints) {
		return nil, ""
	}
	if ttlMs == nil || *ttlMs < 0 {
		ttlMs = new(int64)
	}
	if scope != CachePublic {
		scope = CachePrivate
	}
	return ttlMs, scope
}

func (r *CallToolResult) inVersion(v Version) any { return r.For(v) }

func (r *ListToolsResult) inVersion(v Version) any {
	d := *r
	d.Tools = make([]Tool, len(r.Tools))
	for i := range r.Tools {
		d.Tools[i] = *r.Tools[i].For(v)
	}
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

func (r *ListResourcesResult) inVersion(v Version) any {
	d := *r
	d.Resources = make([]Resource, len(r.Resources))
	for i := range r.Resources {
		d.Resources[i] = *r.Resources[i].For(v)
	}
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

func (r *ListResourceTemplatesResult) inVersion(v Version) any {
	d := *r
	d.ResourceTemplates = make([]ResourceTemplate, len(r.ResourceTemplates))
	for i := range r.ResourceTemplates {
		d.ResourceTemplates[i] = *r.ResourceTemplates[i].For(v)
	}
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

func (r *ReadResourceResult) inVersion(v Version) any {
	d := *r
	if !v.Has(FeatureTitles) { // _meta came with the same revision
		d.Contents = slices.Clone(r.Contents)
		for i := range d.Contents {
			d.Contents[i].Meta = nil
		}
	}
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

func (r *ListPromptsResult) inVersion(v Version) any {
	d := *r
	d.Prompts = make([]Prompt, len(r.Prompts))
	for i := range r.Prompts {
		d.Prompts[i] = *r.Prompts[i].For(v)
	}
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

func (r *GetPromptResult) inVersion(v Version) any {
	d := *r
	d.Messages = slices.Clone(r.Messages)
	for i, m := range d.Messages {
		d.Messages[i].Content = contentFor(m.Content, v)
	}
	d.ResultType = completeIn(v)
	return &d
}

func (r *CompleteResult) inVersion(v Version) any {
	d := *r
	d.ResultType = completeIn(v)
	return &d
}

func (r *DiscoverResult) inVersion(v Version) any {
	d := *r
	d.Capabilities = *r.Capabilities.For(v)
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

func (r *InitializeResult) inVersion(v Version) any {
	d := *r
	d.ServerInfo = *r.ServerInfo.For(v)
	d.Capabilities = *r.Capabilities.For(v)
	return &d
}

func (r *InputRequiredResult) inVersion(v Version) any {
	d := *r
	d.ResultType = ResultInputRequired
	return &d
}

func (r *ListenResult) inVersion(v Version) any {
	d := *r
	d.ResultType = completeIn(v)
	return &d
}

func (r *EmptyResult) inVersion(v Version) any {
	d := *r
	d.ResultType = completeIn(v)
	return &d
}

func (t *ExtensionTask) inVersion(v Version) any {
	d := *t
	if d.ResultType != ResultTask {
		d.ResultType = completeIn(v)
	}
	return &d
}

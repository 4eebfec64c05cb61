package mcp

// The functions here leave out of data what an older revision has no member for: its
// peers need not know what to do with it.

// For returns i as revision v has it.
func (i *Implementation) For(v Version) *Implementation {
	d := *i
	if !v.Has(FeatureTitles) {
		d.Title = ""
	}
	if !v.Has(FeatureIcons) {
		d.Description, d.WebsiteURL, d.Icons = "", "", nil
	}
	return &d
}

// For returns t as revision v has it. An output schema whose root is not an object is
// left out where v would refuse it. Unknown members stay.
func (t *Tool) For(v Version) *Tool {
	d := *t
	d.Title, d.Icons, d.Meta = describedFor(v, t.Title, t.Icons, t.Meta)
	if !v.Has(FeatureToolAnnotations) {
		d.Annotations = nil
	}
	if !v.Has(FeatureCoreTasks) {
		d.Execution = nil
	}
	if len(t.OutputSchema) == 0 || v.Has(FeatureAnyStructuredContent) {
		return &d
	}
	root, _ := findMember(t.OutputSchema, "type")
	if !v.Has(FeatureStructuredContent) || string(root) != `"object"` {
		d.OutputSchema = nil
	}
	return &d
}

// For returns r as revision v has it.
func (r *Resource) For(v Version) *Resource {
	d := *r
	d.Title, d.Icons, d.Meta = describedFor(v, r.Title, r.Icons, r.Meta)
	d.Annotations = r.Annotations.For(v)
	return &d
}

// For returns r as revision v has it.
func (r *ResourceTemplate) For(v Version) *ResourceTemplate {
	d := *r
	d.Title, d.Icons, d.Meta = describedFor(v, r.Title, r.Icons, r.Meta)
	d.Annotations = r.Annotations.For(v)
	return &d
}

// For returns p as revision v has it.
func (p *Prompt) For(v Version) *Prompt {
	d := *p
	d.Title, d.Icons, d.Meta = describedFor(v, p.Title, p.Icons, p.Meta)
	if !v.Has(FeatureTitles) {
		d.Arguments = make([]PromptArgument, len(p.Arguments))
		for i, a := range p.Arguments {
			a.Title = ""
			d.Arguments[i] = a
		}
	}
	return &d
}

// For returns a as revision v has it; a may be nil.
func (a *Annotations) For(v Version) *Annotations {
	if a == nil || a.LastModified == "" || v.Has(FeatureTitles) { // came with the same revision
		return a
	}
	d := *a
	d.LastModified = ""
	return &d
}

// describedFor returns what definitions have in common.
func describedFor(v Version, title string, icons []Icon, meta Meta) (string, []Icon, Meta) {
	if !v.Has(FeatureTitles) {
		title, meta = "", nil
	}
	if !v.Has(FeatureIcons) {
		icons = nil
	}
	return title, icons, meta
}

// plainFor returns a block without what revision v has no member for. It returns c
// itself where there is nothing of that kind.
func plainFor(c Content, v Version) Content {
	if v.Has(FeatureIcons) {
		return c
	}
	if l, ok := c.(*ResourceLink); ok && len(l.Icons) > 0 {
		d := *l
		d.Icons = nil
		c = &d
	}
	if v.Has(FeatureTitles) {
		return c
	}
	switch b := c.(type) {
	case *TextContent:
		if a := b.Annotations.For(v); b.Meta != nil || a != b.Annotations {
			d := *b
			d.Annotations, d.Meta = a, nil
			return &d
		}
	case *ImageContent:
		if a := b.Annotations.For(v); b.Meta != nil || a != b.Annotations {
			d := *b
			d.Annotations, d.Meta = a, nil
			return &d
		}
	case *AudioContent:
		if a := b.Annotations.For(v); b.Meta != nil || a != b.Annotations {
			d := *b
			d.Annotations, d.Meta = a, nil
			return &d
		}
	case *EmbeddedResource:
		if a := b.Annotations.For(v); b.Meta != nil || b.Resource.Meta != nil || a != b.Annotations {
			d := *b
			d.Annotations, d.Meta, d.Resource.Meta = a, nil, nil
			return &d
		}
	}
	return c
}

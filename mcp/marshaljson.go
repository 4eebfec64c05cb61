package mcp

import "github.com/troupe-dev/troupe/internal/jsonx"

// The codec of this module writes the members of Extra beside the named ones;
// encoding/json would write them as a member "Extra". These methods make both write the
// same. Decoding with encoding/json ignores unknown members.

// The types without their methods.
type (
	annotationsJSON                 Annotations
	callToolResultJSON              CallToolResult
	clientCapabilitiesJSON          ClientCapabilities
	completeResultJSON              CompleteResult
	completionJSON                  Completion
	completionRefJSON               CompletionRef
	createMessageParamsJSON         CreateMessageParams
	createTaskResultJSON            CreateTaskResult
	discoverResultJSON              DiscoverResult
	elicitParamsJSON                ElicitParams
	elicitResultJSON                ElicitResult
	extensionTaskJSON               ExtensionTask
	getPromptResultJSON             GetPromptResult
	getSkillResultJSON              GetSkillResult
	iconJSON                        Icon
	implementationJSON              Implementation
	initializeResultJSON            InitializeResult
	inputRequestJSON                InputRequest
	inputRequiredResultJSON         InputRequiredResult
	listPromptsResultJSON           ListPromptsResult
	listResourceTemplatesResultJSON ListResourceTemplatesResult
	listResourcesResultJSON         ListResourcesResult
	listRootsResultJSON             ListRootsResult
	listSkillsResultJSON            ListSkillsResult
	listTasksResultJSON             ListTasksResult
	listToolsResultJSON             ListToolsResult
	logParamsJSON                   LogParams
	modelPreferencesJSON            ModelPreferences
	progressParamsJSON              ProgressParams
	promptJSON                      Prompt
	promptArgumentJSON              PromptArgument
	promptMessageJSON               PromptMessage
	readResourceResultJSON          ReadResourceResult
	resourceJSON                    Resource
	resourceTemplateJSON            ResourceTemplate
	rootJSON                        Root
	serverCapabilitiesJSON          ServerCapabilities
	skillResourceJSON               SkillResource
	taskJSON                        Task
	toolJSON                        Tool
	toolAnnotationsJSON             ToolAnnotations
	toolChoiceJSON                  ToolChoice
	toolExecutionJSON               ToolExecution
)

func (v Annotations) MarshalJSON() ([]byte, error) { return jsonx.Marshal(annotationsJSON(v)) }
func (v CallToolResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal((*callToolResultJSON)(&v))
}
func (v ClientCapabilities) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(clientCapabilitiesJSON(v))
}
func (v CompleteResult) MarshalJSON() ([]byte, error) { return jsonx.Marshal(completeResultJSON(v)) }
func (v Completion) MarshalJSON() ([]byte, error)     { return jsonx.Marshal(completionJSON(v)) }
func (v CompletionRef) MarshalJSON() ([]byte, error)  { return jsonx.Marshal(completionRefJSON(v)) }
func (v CreateMessageParams) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(createMessageParamsJSON(v))
}
func (v CreateTaskResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(createTaskResultJSON(v))
}
func (v DiscoverResult) MarshalJSON() ([]byte, error)  { return jsonx.Marshal(discoverResultJSON(v)) }
func (v ElicitParams) MarshalJSON() ([]byte, error)    { return jsonx.Marshal(elicitParamsJSON(v)) }
func (v ElicitResult) MarshalJSON() ([]byte, error)    { return jsonx.Marshal(elicitResultJSON(v)) }
func (v ExtensionTask) MarshalJSON() ([]byte, error)   { return jsonx.Marshal(extensionTaskJSON(v)) }
func (v GetPromptResult) MarshalJSON() ([]byte, error) { return jsonx.Marshal(getPromptResultJSON(v)) }
func (v GetSkillResult) MarshalJSON() ([]byte, error)  { return jsonx.Marshal(getSkillResultJSON(v)) }
func (v Icon) MarshalJSON() ([]byte, error)            { return jsonx.Marshal(iconJSON(v)) }
func (v Implementation) MarshalJSON() ([]byte, error)  { return jsonx.Marshal(implementationJSON(v)) }
func (v InitializeResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(initializeResultJSON(v))
}
func (v InputRequest) MarshalJSON() ([]byte, error) { return jsonx.Marshal(inputRequestJSON(v)) }
func (v InputRequiredResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(inputRequiredResultJSON(v))
}
func (v ListPromptsResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(listPromptsResultJSON(v))
}
func (v ListResourceTemplatesResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(listResourceTemplatesResultJSON(v))
}
func (v ListResourcesResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(listResourcesResultJSON(v))
}
func (v ListRootsResult) MarshalJSON() ([]byte, error) { return jsonx.Marshal(listRootsResultJSON(v)) }
func (v ListSkillsResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(listSkillsResultJSON(v))
}
func (v ListTasksResult) MarshalJSON() ([]byte, error) { return jsonx.Marshal(listTasksResultJSON(v)) }
func (v ListToolsResult) MarshalJSON() ([]byte, error) { return jsonx.Marshal(listToolsResultJSON(v)) }
func (v LogParams) MarshalJSON() ([]byte, error)       { return jsonx.Marshal(logParamsJSON(v)) }
func (v ModelPreferences) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(modelPreferencesJSON(v))
}
func (v ProgressParams) MarshalJSON() ([]byte, error) { return jsonx.Marshal(progressParamsJSON(v)) }
func (v Prompt) MarshalJSON() ([]byte, error)         { return jsonx.Marshal(promptJSON(v)) }
func (v PromptArgument) MarshalJSON() ([]byte, error) { return jsonx.Marshal(promptArgumentJSON(v)) }
func (v PromptMessage) MarshalJSON() ([]byte, error)  { return jsonx.Marshal(promptMessageJSON(v)) }
func (v ReadResourceResult) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(readResourceResultJSON(v))
}
func (v Resource) MarshalJSON() ([]byte, error) { return jsonx.Marshal(resourceJSON(v)) }
func (v ResourceTemplate) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(resourceTemplateJSON(v))
}
func (v Root) MarshalJSON() ([]byte, error) { return jsonx.Marshal(rootJSON(v)) }
func (v ServerCapabilities) MarshalJSON() ([]byte, error) {
	return jsonx.Marshal(serverCapabilitiesJSON(v))
}
func (v SkillResource) MarshalJSON() ([]byte, error)   { return jsonx.Marshal(skillResourceJSON(v)) }
func (v Task) MarshalJSON() ([]byte, error)            { return jsonx.Marshal(taskJSON(v)) }
func (v Tool) MarshalJSON() ([]byte, error)            { return jsonx.Marshal(toolJSON(v)) }
func (v ToolAnnotations) MarshalJSON() ([]byte, error) { return jsonx.Marshal(toolAnnotationsJSON(v)) }
func (v ToolChoice) MarshalJSON() ([]byte, error)      { return jsonx.Marshal(toolChoiceJSON(v)) }
func (v ToolExecution) MarshalJSON() ([]byte, error)   { return jsonx.Marshal(toolExecutionJSON(v)) }

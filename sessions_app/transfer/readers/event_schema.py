"""Fields of ADK's events in wire form, by model. Pure data: this package never imports ADK.

A test compares the table with `Event.model_json_schema()` of the installed google-adk (2.13). A field is `name`, or
`name:kind`, where the kind is another model, `[model]`, `{model}` (a map by free keys) or `bytes`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

LENIENT = frozenset({"Event", "NodeInfo"})
"""Models that ignore unknown fields. All others reject the whole event."""

TABLE = {
    "Event": (
        "actions:EventActions author avgLogprobs branch cacheMetadata:CacheMetadata "
        "citationMetadata:CitationMetadata content:Content customMetadata environmentId errorCode "
        "errorMessage finishReason goAway:LiveServerGoAway groundingMetadata:GroundingMetadata id "
        "inputTranscription:Transcription interactionId interactionStatus interrupted invocationId "
        "isolationScope liveSessionId liveSessionResumptionUpdate:LiveServerSessionResumptionUpdate "
        "logprobsResult:LogprobsResult longRunningToolIds modelVersion nodeInfo:NodeInfo output "
        "outputTranscription:Transcription partial timestamp turnComplete turnCompleteReason "
        "usageMetadata:GenerateContentResponseUsageMetadata voiceActivity:VoiceActivity"
    ),
    "Blob": "data:bytes displayName mimeType",
    "CacheMetadata": "cache_name contents_count created_at expire_time fingerprint invocations_used",
    "Citation": "endIndex license publicationDate:GoogleTypeDate startIndex title uri",
    "CitationMetadata": "citations:[Citation]",
    "CodeExecutionResult": "id outcome output",
    "Content": "parts:[Part] role",
    "EventActions": (
        "agentState artifactDelta compaction:EventCompaction endOfAgent escalate renderUiWidgets:[UiWidget] "
        "requestedAuthConfigs requestedToolConfirmations:{ToolConfirmation} rewindBeforeInvocationId route "
        "setModelResponse skipSummarization stateDelta transferReason transferToAgent"
    ),
    "EventCompaction": "compactedContent:Content endTimestamp startTimestamp",
    "ExecutableCode": "code id language",
    "FileData": "displayName fileUri mimeType",
    "FunctionCall": "args id name partialArgs:[PartialArg] willContinue",
    "FunctionResponse": "id name parts:[FunctionResponsePart] response scheduling willContinue",
    "FunctionResponseBlob": "data:bytes displayName mimeType",
    "FunctionResponseFileData": "displayName fileUri mimeType",
    "FunctionResponsePart": (
        "fileData:FunctionResponseFileData inlineData:FunctionResponseBlob mediaProcessing"
    ),
    "GenerateContentResponseUsageMetadata": (
        "cacheTokensDetails:[ModalityTokenCount] cachedContentTokenCount candidatesTokenCount "
        "candidatesTokensDetails:[ModalityTokenCount] promptTokenCount "
        "promptTokensDetails:[ModalityTokenCount] thoughtsTokenCount toolUsePromptTokenCount "
        "toolUsePromptTokensDetails:[ModalityTokenCount] totalTokenCount trafficType"
    ),
    "GoogleTypeDate": "day month year",
    "GroundingChunk": (
        "image:GroundingChunkImage maps:GroundingChunkMaps retrievedContext:GroundingChunkRetrievedContext "
        "web:GroundingChunkWeb"
    ),
    "GroundingChunkCustomMetadata": "key numericValue stringListValue:GroundingChunkStringList stringValue",
    "GroundingChunkImage": "domain imageUri sourceUri title",
    "GroundingChunkMaps": (
        "placeAnswerSources:GroundingChunkMapsPlaceAnswerSources placeId route:GroundingChunkMapsRoute text "
        "title uri"
    ),
    "GroundingChunkMapsPlaceAnswerSources": (
        "flagContentUri reviewSnippet:[GroundingChunkMapsPlaceAnswerSourcesReviewSnippet] "
        "reviewSnippets:[GroundingChunkMapsPlaceAnswerSourcesReviewSnippet]"
    ),
    "GroundingChunkMapsPlaceAnswerSourcesAuthorAttribution": "displayName photoUri uri",
    "GroundingChunkMapsPlaceAnswerSourcesReviewSnippet": (
        "authorAttribution:GroundingChunkMapsPlaceAnswerSourcesAuthorAttribution flagContentUri "
        "googleMapsUri relativePublishTimeDescription review reviewId title"
    ),
    "GroundingChunkMapsRoute": "distanceMeters duration encodedPolyline",
    "GroundingChunkRetrievedContext": (
        "customMetadata:[GroundingChunkCustomMetadata] documentName fileSearchStore mediaId pageNumber "
        "ragChunk:RagChunk text title uri"
    ),
    "GroundingChunkStringList": "values",
    "GroundingChunkWeb": "domain title uri",
    "GroundingMetadata": (
        "googleMapsWidgetContextToken groundingChunks:[GroundingChunk] groundingSupports:[GroundingSupport] "
        "imageSearchQueries retrievalMetadata:RetrievalMetadata retrievalQueries "
        "searchEntryPoint:SearchEntryPoint sourceFlaggingUris:[GroundingMetadataSourceFlaggingUri] "
        "webSearchQueries"
    ),
    "GroundingMetadataSourceFlaggingUri": "flagContentUri sourceId",
    "GroundingSupport": "confidenceScores groundingChunkIndices renderedParts segment:Segment",
    "LiveServerGoAway": "timeLeft",
    "LiveServerSessionResumptionUpdate": "lastConsumedClientMessageIndex newHandle resumable",
    "LogprobsResult": (
        "chosenCandidates:[LogprobsResultCandidate] logProbabilitySum "
        "topCandidates:[LogprobsResultTopCandidates]"
    ),
    "LogprobsResultCandidate": "logProbability token tokenId",
    "LogprobsResultTopCandidates": "candidates:[LogprobsResultCandidate]",
    "ModalityTokenCount": "modality tokenCount",
    "NodeInfo": "messageAsOutput outputFor path",
    "Part": (
        "audioTranscription:Transcription codeExecutionResult:CodeExecutionResult "
        "executableCode:ExecutableCode fileData:FileData functionCall:FunctionCall "
        "functionResponse:FunctionResponse inlineData:Blob mediaProcessing "
        "mediaResolution:PartMediaResolution partMetadata speechMetadata:SpeechMetadata text thought "
        "thoughtSignature:bytes toolCall:ToolCall toolResponse:ToolResponse videoMetadata:VideoMetadata"
    ),
    "PartMediaResolution": "level numTokens",
    "PartialArg": "boolValue jsonPath nullValue numberValue stringValue willContinue",
    "RagChunk": "chunkId fileId pageSpan:RagChunkPageSpan text",
    "RagChunkPageSpan": "firstPage lastPage",
    "RetrievalMetadata": "googleSearchDynamicRetrievalScore",
    "SearchEntryPoint": "renderedContent sdkBlob:bytes",
    "Segment": "endIndex partIndex startIndex text",
    "SpeechMetadata": "speaker style",
    "ToolCall": "args id toolType",
    "ToolConfirmation": "confirmed hint payload",
    "ToolResponse": "id response toolType",
    "Transcription": "endOffset finished languageCode speakerLabel startOffset text words:[WordInfo]",
    "UiWidget": "id payload provider",
    "VideoMetadata": "endOffset fps startOffset",
    "VoiceActivity": "audioOffset voiceActivityType",
    "WordInfo": "endOffset startOffset word",
}


@cache
def wire_fields(model: str) -> dict[str, tuple[str, str]]:
    """Return the fields of a model as (wire name, kind) by their folded name."""
    fields = {}
    for word in TABLE[model].split():
        name, _, kind = word.partition(":")
        fields[fold_name(name)] = (name, kind)
    return fields


def fold_name(name: str) -> str:
    """Return a form of a name that is equal for snake_case, camelCase and PascalCase."""
    return name.replace("_", "").lower()


def snake_case(model: str, value: Any) -> Any:
    """Return a model's wire form with field names in snake case. Data of agents keeps its names."""
    if not isinstance(value, dict):
        return value
    fields = wire_fields(model)
    renamed_fields = {}
    for key, item in value.items():
        name, kind = fields.get(fold_name(key), (key, ""))
        is_known = fold_name(key) in fields
        renamed_fields[re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() if is_known else key] = _snake_field(
            kind, item
        )
    return renamed_fields


def _snake_field(kind: str, item: Any) -> Any:
    if not kind or kind == "bytes":
        return item
    if kind.startswith("[") and isinstance(item, list):
        return [snake_case(kind[1:-1], item_value) for item_value in item]
    if kind.startswith("{") and isinstance(item, dict):
        return {key: snake_case(kind[1:-1], item_value) for key, item_value in item.items()}
    return snake_case(kind, item)

{{- define "a2a-grpc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for the suffixes -registry-http and -metrics: names of Services have 63 characters at most. */}}
{{- define "a2a-grpc.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 49 | trimSuffix "-" }}
{{- else if contains (include "a2a-grpc.name" .) .Release.Name }}
{{- .Release.Name | trunc 49 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "a2a-grpc.name" .) | trunc 49 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.registry" -}}
{{ include "a2a-grpc.fullname" . }}-registry
{{- end }}

{{- define "a2a-grpc.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "a2a-grpc.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* By which the pods of a component are found. A Deployment's selector cannot be changed later. (list $ COMPONENT) */}}
{{- define "a2a-grpc.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "a2a-grpc.name" $root | toYaml }}
app.kubernetes.io/instance: {{ $root.Release.Name | toYaml }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Without the version of the chart: a new chart that changes nothing of the pods replaces none. (list $ COMPONENT) */}}
{{- define "a2a-grpc.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "a2a-grpc.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: a2a-grpc
{{- end }}

{{/* (list $ COMPONENT) */}}
{{- define "a2a-grpc.labels" -}}
{{- $root := index . 0 -}}
{{ include "a2a-grpc.podLabels" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* And others, of which a name may be among the labels of all objects. (list $ COMPONENT LABELS) */}}
{{- define "a2a-grpc.labelsWith" -}}
{{- $labels := include "a2a-grpc.labels" . | fromYaml -}}
{{- toYaml (mergeOverwrite $labels (index . 2 | default dict)) }}
{{- end }}

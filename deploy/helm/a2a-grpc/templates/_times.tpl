{{/* The times of a stop, in seconds. Each ends before the one that cuts it off; _checks.tpl refuses those that do not. */}}

{{/* Interrupting takes the cancel grace, giving back a second, ending the calls not two. */}}
{{- define "a2a-grpc.drainNeeds" -}}
{{- with .Values.shutdown }}{{ add .drainDelay .drainGrace .cancelGrace 3 }}{{ end }}
{{- end }}

{{- define "a2a-grpc.drainTimeout" -}}
{{- $given := .Values.shutdown.drainTimeout -}}
{{- if kindIs "invalid" $given }}{{ include "a2a-grpc.drainNeeds" . }}{{ else }}{{ int $given }}{{ end }}
{{- end }}

{{/* The kubelet counts the seconds of a preStop hook. */}}
{{- define "a2a-grpc.gracePeriodNeeds" -}}
{{ add .Values.shutdown.preStopSleep (include "a2a-grpc.drainTimeout" .) 2 }}
{{- end }}

{{- define "a2a-grpc.gracePeriod" -}}
{{- $given := .Values.shutdown.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given }}{{ include "a2a-grpc.gracePeriodNeeds" . }}{{ else }}{{ int $given }}{{ end }}
{{- end }}

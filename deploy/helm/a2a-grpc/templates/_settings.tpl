{{/* What the agent card tells callers: a route from outside if there is one, or else the Services. */}}
{{- define "a2a-grpc.publicGrpcAddr" -}}
{{- $gateway := .Values.gateway -}}
{{- $ingress := .Values.ingress -}}
{{- if .Values.publicGrpcAddr }}{{ .Values.publicGrpcAddr }}
{{- else if and $gateway.enabled $gateway.grpc.enabled $gateway.grpc.hostnames }}{{ first $gateway.grpc.hostnames }}:443
{{- else if and $ingress.enabled $ingress.grpc.enabled }}{{ $ingress.grpc.host }}:443
{{- else }}{{ include "a2a-grpc.fullname" . }}:{{ .Values.service.grpc.port }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.publicHttpUrl" -}}
{{- $gateway := .Values.gateway -}}
{{- $ingress := .Values.ingress -}}
{{- if .Values.publicHttpUrl }}{{ .Values.publicHttpUrl }}
{{- else if and $gateway.enabled $gateway.http.enabled $gateway.http.hostnames }}https://{{ first $gateway.http.hostnames }}
{{- else if and $ingress.enabled $ingress.http.enabled }}https://{{ $ingress.http.host }}
{{- else }}{{ include "a2a-grpc.scheme" . }}://{{ include "a2a-grpc.fullname" . }}-http:{{ .Values.service.http.port }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.existingSecret)) }}
{{- end }}

{{/* What agents and registry have in common. */}}
{{- define "a2a-grpc.settings.shared" -}}
{{- with .Values.listen }}
{{- if ne . "0.0.0.0" }}
A2A_GRPC_ADDR: {{ printf "%s:50051" . | quote }}
A2A_HTTP_ADDR: {{ printf "%s:8080" . | quote }}
{{- end }}
{{- end }}
A2A_DRAIN_DELAY: {{ .Values.shutdown.drainDelay }}
A2A_DRAIN_GRACE: {{ .Values.shutdown.drainGrace }}
A2A_DRAIN_TIMEOUT: {{ include "a2a-grpc.drainTimeout" . }}
A2A_CANCEL_GRACE: {{ .Values.shutdown.cancelGrace }}
{{- with .Values.redis.url }}
A2A_REDIS_URL: {{ quote . }}
{{- end }}
A2A_STORE_REPLICAS: {{ .Values.redis.writeReplicas }}
A2A_METRICS_ADDR: {{ ternary (printf "%s:9464" (.Values.listen | default "0.0.0.0")) "none" .Values.metrics.enabled | quote }}
{{- with .Values.tls }}
# Without TLS of the pods, what comes over networks is encrypted by what stands in front: an Ingress, a Gateway, a mesh.
A2A_TLS_TERMINATED: {{ empty .existingSecret }}
{{- if .existingSecret }}
A2A_TLS_CERT_FILE: /etc/a2a-grpc/tls/tls.crt
A2A_TLS_KEY_FILE: /etc/a2a-grpc/tls/tls.key
A2A_TLS_CLIENT_CERT: {{ .clientCert }}
A2A_TLS_GRPC_CLIENT_CERT: {{ .grpcClientCert }}
{{- if or .clientCa.existingSecret .clientCa.existingConfigMap }}
A2A_TLS_CLIENT_CA_FILE: /etc/a2a-grpc/client-ca/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.otlp }}
{{- if .endpoint }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ quote .endpoint }}
OTEL_TRACES_SAMPLER_ARG: {{ .samplingRatio }}
{{- end }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.settings.agent" -}}
A2A_PUBLIC_GRPC_ADDR: {{ include "a2a-grpc.publicGrpcAddr" . | quote }}
A2A_PUBLIC_HTTP_URL: {{ include "a2a-grpc.publicHttpUrl" . | quote }}
{{ include "a2a-grpc.settings.shared" . }}
A2A_SHARDS: {{ .Values.redis.shards }}
{{- with .Values.signingKeys }}
{{- if .existingSecret }}
A2A_SIGNING_KEYS: "{{ range $i, $key := .keys }}{{ if $i }},{{ end }}/etc/a2a-grpc/signing/{{ $key }}{{ end }}"
{{- end }}
{{- end }}
{{- with .Values.registry }}
{{- if and .enabled .register }}
A2A_REGISTER_URL: {{ include "a2a-grpc.scheme" $ }}://{{ include "a2a-grpc.registry" $ }}-http:{{ $.Values.service.http.port }}
A2A_REGISTER_PUBLIC: {{ .public }}
{{- if $.Values.tls.existingSecret }}
A2A_REGISTER_CA_FILE: /etc/a2a-grpc/tls/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.otlp.endpoint }}
OTEL_SERVICE_NAME: {{ include "a2a-grpc.fullname" . | quote }}
{{- end }}
{{- end }}

{{- define "a2a-grpc.settings.registry" -}}
{{- $service := include "a2a-grpc.fullname" . -}}
{{- $tls := not (empty .Values.tls.existingSecret) -}}
A2A_PUBLIC_GRPC_ADDR: {{ include "a2a-grpc.registry" . }}:{{ .Values.service.grpc.port }}
A2A_PUBLIC_HTTP_URL: {{ include "a2a-grpc.scheme" . }}://{{ include "a2a-grpc.registry" . }}-http:{{ .Values.service.http.port }}
{{ include "a2a-grpc.settings.shared" . }}
A2A_REGISTRY_ALLOW: {{ $service }},{{ $service }}-http
A2A_REGISTRY_ALLOW_HTTP: {{ not $tls }}
{{- if .Values.otlp.endpoint }}
OTEL_SERVICE_NAME: {{ include "a2a-grpc.registry" . }}
{{- end }}
{{- end }}

{{/* What the values say of it. (list $ COMPONENT) */}}
{{- define "a2a-grpc.settings.given" -}}
{{- $values := (index . 0).Values -}}
{{- $given := deepCopy ($values.settings | default dict) -}}
{{- if eq (index . 1) "registry" }}{{ $given = mergeOverwrite $given ($values.registry.settings | default dict) }}{{ end -}}
{{- toYaml $given }}
{{- end }}

{{/* The data of a ConfigMap: settings of the values over those that are worked out, all of them strings. (list $ COMPONENT) */}}
{{- define "a2a-grpc.settings" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $all := fromYaml (include (printf "a2a-grpc.settings.%s" $component) $root) -}}
{{- $given := include "a2a-grpc.settings.given" . | fromYaml -}}
{{- $data := dict -}}
{{- range $name, $value := mergeOverwrite $all $given }}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $data $name (include "a2a-grpc.string" $value) }}{{ end }}
{{- end }}
{{- toYaml $data }}
{{- end }}

{{/* A number as it is written: Helm takes 4194304 for a float and would print 4.194304e+06. */}}
{{- define "a2a-grpc.string" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

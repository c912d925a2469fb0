"""Settings to mount DevUI in an existing Django project: three lines of its settings, and one of its URLs.

    from devui import embed

    INSTALLED_APPS += embed.APPS
    MIDDLEWARE += embed.MIDDLEWARE
    TEMPLATES[0]["OPTIONS"]["context_processors"] += embed.CONTEXT_PROCESSORS

    urlpatterns += [path("devui/", include("devui.urls"))]

The middleware affects only addresses below that path. ALLOWED_HOSTS, database, static files and access control are the
project's; DevUI's login is not included.
"""

APPS = [
    "django_htmx",
    "template_partials",
    "channels",
    "devui.apis.docs_page.ApiDocs",
    "sessions_app",
    "evals_app",
    "devui",
]

GUARDS = [
    "devui.web.middleware.ContentSecurity",
    "devui.web.middleware.KnownHost",
    "devui.web.middleware.SameOriginWrites",
]
ANSWERS = [
    "django_htmx.middleware.HtmxMiddleware",
    "devui.web.middleware.VaryOnHtmx",
    "devui.web.middleware.Errors",
]
BODIES = ["devui.web.middleware.LargeBodies"]
MIDDLEWARE = [*GUARDS, *ANSWERS, *BODIES]

CONTEXT_PROCESSORS = ["django.template.context_processors.request", "devui.web.page_context.shell"]

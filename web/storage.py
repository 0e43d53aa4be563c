"""Static files of production: names carry a digest of their content, also where one script imports another."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Whitenoise's storage that rewrites the imports of ES modules too, so that no page mixes modules of two releases."""

    support_js_module_import_aggregation = True
